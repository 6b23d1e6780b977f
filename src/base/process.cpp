#include "base/process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace ferrule {
namespace {

/// Field 22 of /proc/<pid>/stat in clock ticks since boot; 0 when unknown. The name in field 2 may hold
/// spaces and parentheses, so fields are counted from the last ')'.
std::uint64_t start_ticks_of(std::int64_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string line;
  if (!std::getline(file, line)) return 0;
  const auto name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(line.substr(name_end + 1));
  std::string field;
  constexpr int kFieldsToStartTime = 20;  // fields 3 to 22
  for (int i = 0; i < kFieldsToStartTime; ++i) {
    if (!(fields >> field)) return 0;
  }
  return std::strtoull(field.c_str(), nullptr, 10);
}

std::uint64_t own_pid_namespace() {
  struct stat info {};
  return ::stat("/proc/self/ns/pid", &info) == 0 ? info.st_ino : 0;
}

bool is_readable(int pidfd) {
  pollfd state{pidfd, POLLIN, 0};
  return ::poll(&state, 1, 0) == 1;
}

int open_pidfd(std::int64_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

/// Above whatever a network library opens, unless the process has thousands of descriptors open.
int high_number() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  return static_cast<int>(std::min<rlim_t>(limit.rlim_cur / 4 * 3, 3000));
}

}  // namespace

ProcessIdentity ProcessIdentity::of_this_process() {
  const std::int64_t pid = ::getpid();
  return {pid, start_ticks_of(pid), own_pid_namespace()};
}

Watch watch_process(const ProcessIdentity& peer, const ProcessIdentity& self) {
  if (!self.same_namespace(peer) || peer.pid <= 0 || peer.start_ticks == 0) return {};
  const int descriptor = open_pidfd(peer.pid);
  if (descriptor < 0) return {errno == ESRCH ? WatchState::already_gone : WatchState::not_possible, -1};
  // The pid may have been given to another process before the descriptor was opened, not after.
  const auto start = start_ticks_of(peer.pid);
  if (start == peer.start_ticks && !is_readable(descriptor)) return {WatchState::watching, descriptor};
  ::close(descriptor);
  // Unreadable (hidden, or ended this very moment): nothing is proven, and UCX's keepalive has to do.
  return {start == 0 ? WatchState::not_possible : WatchState::already_gone, -1};
}

bool has_ended(const ProcessIdentity& peer, const ProcessIdentity& self) {
  const Watch watch = watch_process(peer, self);
  if (watch.descriptor >= 0) ::close(watch.descriptor);
  return watch.state == WatchState::already_gone;
}

DeathSign DeathSign::make() {
  DeathSign sign;
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return sign;
  const Descriptor reading(ends[0]);
  const Descriptor writing(ends[1]);
  sign.end_ = Descriptor(::fcntl(writing.get(), F_DUPFD_CLOEXEC, high_number()));
  return sign;
}

Descriptor watch_sign(const ProcessIdentity& peer, int number, const ProcessIdentity& self) {
  if (!self.same_namespace(peer) || peer.pid <= 0 || number < 0) return {};
  const std::string path = "/proc/" + std::to_string(peer.pid) + "/fd/" + std::to_string(number);
  Descriptor end(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  // A pid that was given to another process may have anything there.
  if (!end || ::fstat(end.get(), &info) != 0 || !S_ISFIFO(info.st_mode)) return {};
  return start_ticks_of(peer.pid) == peer.start_ticks ? std::move(end) : Descriptor();
}

}  // namespace ferrule
