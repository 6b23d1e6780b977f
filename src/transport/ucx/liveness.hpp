// Sees the death of processes on this host at once: UCX notices a killed peer behind shared memory only by
// its keepalive, and only while it is progressed.
#pragma once

#include <cstdint>

namespace ferrule::transport::ucx {

/// Names a process beyond doubt on one host: a pid alone is reused, and means another process in another pid
/// namespace.
struct ProcessIdentity {
  std::int64_t pid = 0;
  std::uint64_t start_ticks = 0;    ///< field 22 of /proc/<pid>/stat
  std::uint64_t pid_namespace = 0;  ///< inode of /proc/<pid>/ns/pid

  static ProcessIdentity of_this_process();
  bool same_namespace(const ProcessIdentity& other) const {
    return pid_namespace != 0 && pid_namespace == other.pid_namespace;
  }
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// What happened when a watch was set up.
enum class WatchState { watching, already_gone, not_possible };

struct Watch {
  WatchState state = WatchState::not_possible;
  int descriptor = -1;  ///< a pidfd, readable when the process has ended; owned by the caller
};

/// Opens a descriptor for the death of `peer`. Not possible for a process that this one cannot see (another
/// pid namespace, an old kernel, /proc hidden).
Watch watch_process(const ProcessIdentity& peer, const ProcessIdentity& self);

}  // namespace ferrule::transport::ucx
