// Two hosts on one machine: network namespaces joined by a virtual cable. Needs root and `ip` (iproute2).
#pragma once

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <string>

namespace ferrule::testing {

/// Removed when it goes.
class TwoHosts {
 public:
  TwoHosts() : stem_("ferrule-" + std::to_string(::getpid())) {
    if (::geteuid() != 0) {
      why_not_ = "network namespaces need root";
    } else if (!run("command -v ip")) {
      why_not_ = "network namespaces need `ip` (apt install iproute2)";
    } else if (!run("ip netns add " + name(0)) || !run("ip netns add " + name(1))) {
      why_not_ = "this machine refuses network namespaces (ip netns add)";
    } else if (!run("ip -n " + name(0) + " link add cable type veth peer name cable netns " + name(1)) ||
               !bring_up(0) || !bring_up(1) || !is_plugged_in()) {
      why_not_ = "this machine refuses virtual network cards (ip link add type veth)";
    } else if (!boot(0) || !boot(1)) {
      why_not_ = "this machine refuses IPC namespaces (unshare)";
    }
  }
  TwoHosts(const TwoHosts&) = delete;
  TwoHosts& operator=(const TwoHosts&) = delete;
  ~TwoHosts() {
    for (const pid_t keeper : keepers_) {
      if (keeper <= 0) continue;
      ::kill(keeper, SIGKILL);
      ::waitpid(keeper, nullptr, 0);
    }
    for (const int host : {0, 1}) static_cast<void>(run("ip netns del " + name(host)));
  }

  /// Empty if they are there.
  const std::string& why_not() const { return why_not_; }
  static std::string address(int host) { return "10.213.7." + std::to_string(host + 1); }

  /// Moves the calling process to a host, and shows it that host's network cards in /sys, where UCX looks.
  bool enter(int host) const {
    const std::string keeper = "/proc/" + std::to_string(keepers_[static_cast<std::size_t>(host)]) + "/ns/";
    return join("/run/netns/" + name(host), CLONE_NEWNET) && join(keeper + "ipc", CLONE_NEWIPC) &&
           join(keeper + "uts", CLONE_NEWUTS) && ::unshare(CLONE_NEWNS) == 0 &&
           ::mount("", "/", "none", MS_SLAVE | MS_REC, nullptr) == 0 &&
           ::mount("sysfs", "/sys", "sysfs", 0, nullptr) == 0;
  }

 private:
  static bool run(const std::string& command) {
    return std::system((command + " > /dev/null 2>&1").c_str()) == 0;  // NOLINT: no text of anybody else's
  }
  static bool join(const std::string& path, int kind) {
    const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    const bool joined = ::setns(file, kind) == 0;
    ::close(file);
    return joined;
  }

  bool bring_up(int host) const {
    const std::string here = "ip -n " + name(host);
    return run(here + " addr add " + address(host) + "/24 dev cable") && run(here + " link set cable up") &&
           run(here + " link set lo up");
  }

  // The kernel says so a moment after both ends are up, and UCX passes over cards that are not.
  bool is_plugged_in() const {
    for (int tries = 0; tries < 200; ++tries) {
      const auto is_up = [&](int host) {
        return run("ip -n " + name(host) + " link show cable | grep -q 'state UP'");
      };
      if (is_up(0) && is_up(1)) return true;
      ::usleep(50000);
    }
    return false;
  }

  // A host name and an IPC namespace: UCX takes processes without them for neighbours in shared memory. A
  // process keeps them.
  bool boot(int host) {
    std::array<int, 2> ready{};
    if (::pipe(ready.data()) != 0) return false;
    const pid_t keeper = ::fork();
    if (keeper == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const std::string host_name = "host" + std::to_string(host);
      const bool done = ::unshare(CLONE_NEWUTS | CLONE_NEWIPC) == 0 &&
                        ::sethostname(host_name.data(), host_name.size()) == 0;
      if (!done || ::write(ready[1], "", 1) != 1) ::_exit(1);
      ::close(ready[1]);
      while (true) ::pause();
    }
    keepers_[static_cast<std::size_t>(host)] = keeper;
    ::close(ready[1]);
    char byte = 0;
    const bool booted = keeper > 0 && ::read(ready[0], &byte, 1) == 1;
    ::close(ready[0]);
    return booted;
  }

  std::string name(int host) const { return stem_ + "-" + std::to_string(host); }

  std::string stem_;
  std::string why_not_;
  std::array<pid_t, 2> keepers_{};
};

}  // namespace ferrule::testing
