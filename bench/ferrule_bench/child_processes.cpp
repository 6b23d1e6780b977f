#include "bench/ferrule_bench/child_processes.hpp"

#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "bench/ferrule_bench/exit_codes.hpp"

namespace ferrule::bench {
namespace {

constexpr std::chrono::milliseconds kTermGrace{2000};  ///< between SIGTERM and SIGKILL

struct Child {
  int rank = 0;
  pid_t pid = 0;
  bool running = false;
};

class Supervisor {
 public:
  explicit Supervisor(std::string program) : program_(std::move(program)) {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGCHLD}) sigaddset(&signals_, signal);
    sigprocmask(SIG_BLOCK, &signals_, &before_);
  }
  ~Supervisor() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

  bool start(int rank, const std::function<int(int)>& body);
  /// Until all children have ended, or a signal asks this process to end. Returns that signal, else 0.
  int watch(std::chrono::milliseconds grace);
  void end_all();
  int exit_code() const { return exit_code_; }

 private:
  bool any_running() const {
    return std::any_of(children_.begin(), children_.end(), [](const Child& child) { return child.running; });
  }
  void signal_all(int signal) const;
  void reap();
  void note_end(Child& child, int status);
  /// Waits for one of the signals, a moment at most. 0: none came.
  int next_signal() const;
  void reap_for(std::chrono::milliseconds duration);

  const std::string program_;
  sigset_t signals_{};
  sigset_t before_{};
  std::vector<Child> children_;
  int exit_code_ = kExitOk;
  bool failed_ = false;
};

bool Supervisor::start(int rank, const std::function<int(int)>& body) {
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(kExitFailed);  // it ended before prctl took effect
    sigprocmask(SIG_SETMASK, &before_, nullptr);
    const int code = body(rank);
    std::fflush(nullptr);
    _exit(code);
  }
  if (pid < 0) {
    fmt::print(stderr, "{}: cannot start rank {}: {}\n", program_, rank, strerror(errno));
    exit_code_ = kExitFailed;
    return false;
  }
  children_.push_back({rank, pid, true});
  return true;
}

void Supervisor::note_end(Child& child, int status) {
  child.running = false;
  if (WIFSIGNALED(status)) {
    const int signal = WTERMSIG(status);
    if (!failed_)
      fmt::print(stderr, "{}: rank {} (pid {}) died of signal {} ({})\n", program_, child.rank, child.pid,
                 signal, strsignal(signal));
    exit_code_ = kExitFailed;
    failed_ = true;
    return;
  }
  const int code = WEXITSTATUS(status);
  if (code != kExitOk && code != kExitWrong && !failed_) {
    fmt::print(stderr, "{}: rank {} (pid {}) ended with exit code {}\n", program_, child.rank, child.pid,
               code);
    failed_ = true;
  }
  exit_code_ = std::max(exit_code_, code);
}

void Supervisor::reap() {
  for (Child& child : children_) {
    int status = 0;
    if (child.running && waitpid(child.pid, &status, WNOHANG) == child.pid) note_end(child, status);
  }
}

void Supervisor::signal_all(int signal) const {
  for (const Child& child : children_) {
    if (child.running) kill(child.pid, signal);
  }
}

int Supervisor::next_signal() const {
  const timespec moment{0, 100'000'000};
  return std::max(sigtimedwait(&signals_, nullptr, &moment), 0);
}

void Supervisor::reap_for(std::chrono::milliseconds duration) {
  const auto deadline = std::chrono::steady_clock::now() + duration;
  while (any_running() && std::chrono::steady_clock::now() < deadline) {
    next_signal();
    reap();
  }
}

int Supervisor::watch(std::chrono::milliseconds grace) {
  while (any_running()) {
    const int signal = next_signal();
    if (signal != 0 && signal != SIGCHLD) return signal;
    reap();
    if (failed_) {
      reap_for(grace);
      end_all();
    }
  }
  return 0;
}

void Supervisor::end_all() {
  failed_ = true;  // what they die of from here on is our doing, and no news
  signal_all(SIGTERM);
  reap_for(kTermGrace);
  signal_all(SIGKILL);
  while (any_running()) {  // SIGKILL cannot be refused
    next_signal();
    reap();
  }
}

/// Ends this process the way the signal would have, so that a shell sees it.
void die_of(int signal) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  ::signal(signal, SIG_DFL);
  raise(signal);
  sigprocmask(SIG_UNBLOCK, &one, nullptr);
}

}  // namespace

int run_child_processes(const ChildProcesses& children, const std::function<int(int rank)>& body,
                        const std::function<void()>& cleanup) {
  Supervisor supervisor(children.program);
  bool started = true;
  for (int rank = 0; rank < children.ranks && started; ++rank) started = supervisor.start(rank, body);
  if (!started) supervisor.end_all();
  const int signal = supervisor.watch(std::chrono::milliseconds(children.grace_ms));
  if (signal != 0) supervisor.end_all();
  cleanup();
  if (signal != 0) die_of(signal);
  return supervisor.exit_code();
}

}  // namespace ferrule::bench
