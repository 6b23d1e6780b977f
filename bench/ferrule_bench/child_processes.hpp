// Starts local ranks as processes of this program and watches over them. No child outlives this process,
// however it ends; a child that dies is named, and its siblings are ended.
#pragma once

#include <functional>
#include <string>

namespace ferrule::bench {

struct ChildProcesses {
  int ranks = 1;
  int grace_ms = 3000;
  std::string program = "ferrule-bench";  ///< whose errors these are
};

/// Runs body(rank) in a process of its own for each rank, and waits for all. Returns the exit code for this
/// program: the largest of the children's, kExitFailed if one died of a signal. A child's failure gives the
/// others `grace_ms` to notice it themselves (their text says more), then they are ended. Must be called
/// before this process has other threads. If SIGINT, SIGTERM or SIGHUP arrives, ends the children, runs
/// `cleanup` and then this process by that signal.
int run_child_processes(const ChildProcesses& children, const std::function<int(int rank)>& body,
                        const std::function<void()>& cleanup);

}  // namespace ferrule::bench
