// Names processes of this host beyond doubt, and sees their death at once.
#pragma once

#include <cstdint>

#include "base/descriptor.hpp"

namespace ferrule {

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

/// Beyond doubt: a process that cannot be seen has not ended.
bool has_ended(const ProcessIdentity& peer, const ProcessIdentity& self);

/// What happened when a watch was set up.
enum class WatchState { watching, already_gone, not_possible };

struct Watch {
  WatchState state = WatchState::not_possible;
  int descriptor = -1;  ///< a pidfd, readable when the process has ended; owned by the caller
};

/// Opens a descriptor for the death of `peer`. Not possible for a process that this one cannot see (another
/// pid namespace, an old kernel, /proc hidden).
Watch watch_process(const ProcessIdentity& peer, const ProcessIdentity& self);

/// A pipe that nobody writes to. Its end closes when this process ends: before the process's sockets, because
/// Linux closes the highest descriptors first (a pidfd is readable only after the last). So peers that hold
/// the other end know of a death before a network library can meet the broken connection.
class DeathSign {
 public:
  /// Without a descriptor (number() < 0) where none can be made: then there is no early sign.
  static DeathSign make();
  int number() const { return end_.get(); }

 private:
  Descriptor end_;
};

/// The other end of a peer's sign, which reports a hang-up at its death; none where it cannot be opened.
Descriptor watch_sign(const ProcessIdentity& peer, int number, const ProcessIdentity& self);

}  // namespace ferrule
