// The descriptors a transport sleeps on: UCX's events, wake() from other threads, deaths of processes and the
// early signs of them, news of the vigil.
#pragma once

#include <cstdint>
#include <vector>

#include "base/deadline.hpp"
#include "base/descriptor.hpp"
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

  /// Reports `peer` as dying when `sign` hangs up, once; see DeathSign.
  Status add_sign(Descriptor sign, std::int32_t peer);
  void forget_signs() { signs_.clear(); }
  /// Wakes a sleeper while `descriptor` is readable. It stays the caller's.
  Status add_news(int descriptor);

  /// Ends a sleep() that runs, or the next one. Any thread.
  void wake();
  struct Deaths {
    std::vector<std::int32_t> ended;  ///< peers whose process has ended
    std::vector<std::int32_t> dying;  ///< peers whose process is about to end, as it seems
  };
  /// Sleeps until something happens, at the deadline at the latest. A deadline in the past looks without
  /// sleeping.
  Result<Deaths> sleep(Deadline deadline);

 private:
  struct Process {
    int pidfd;
    std::int32_t peer;
  };
  struct Sign {
    Descriptor end;
    std::int32_t peer;
  };
  Status add(int descriptor, std::uint64_t tag);
  void forget(std::int32_t peer);

  int poll_ = -1;
  int wake_ = -1;
  std::vector<Process> processes_;
  std::vector<Sign> signs_;
};

}  // namespace ferrule::transport::ucx
