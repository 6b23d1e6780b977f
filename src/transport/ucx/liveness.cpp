#include "transport/ucx/liveness.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace ferrule::transport::ucx {
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

bool has_ended(int pidfd) {
  pollfd state{pidfd, POLLIN, 0};
  return ::poll(&state, 1, 0) == 1;
}

int open_pidfd(std::int64_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }

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
  if (start == peer.start_ticks && !has_ended(descriptor)) return {WatchState::watching, descriptor};
  ::close(descriptor);
  // Unreadable (hidden, or ended this very moment): nothing is proven, and UCX's keepalive has to do.
  return {start == 0 ? WatchState::not_possible : WatchState::already_gone, -1};
}

}  // namespace ferrule::transport::ucx
