// The descriptors a transport sleeps on: UCX's events, wake() from other threads, deaths of processes.
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.hpp"
#include "ferrule/status.hpp"

namespace ferrule::transport::ucx {

class WakeSet {
 public:
  WakeSet() = default;
  WakeSet(const WakeSet&) = delete;
  WakeSet& operator=(const WakeSet&) = delete;
  ~WakeSet();

  /// `events` is UCX's descriptor; it stays UCX's.
  Status open(int events);
  /// Reports `peer` when `pidfd` becomes readable, once. Takes the descriptor over.
  Status add_process(int pidfd, std::int32_t peer);

  /// Ends a sleep() that runs, or the next one. Any thread.
  void wake();
  /// Sleeps until something happens, at the deadline at the latest. Returns the peers whose process has
  /// ended. A deadline in the past looks without sleeping.
  Result<std::vector<std::int32_t>> sleep(Deadline deadline);

 private:
  struct Process {
    int pidfd;
    std::int32_t peer;
  };
  Status add(int descriptor, std::uint64_t tag);
  void forget(std::int32_t peer);

  int poll_ = -1;
  int wake_ = -1;
  std::vector<Process> processes_;
};

}  // namespace ferrule::transport::ucx
