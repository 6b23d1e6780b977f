#include "base/process.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <utility>

namespace ferrule {
namespace {

constexpr int kLimitMs = 20'000;

bool hangs_up(int descriptor, int limit_ms) {
  pollfd entry{descriptor, POLLIN, 0};
  return ::poll(&entry, 1, limit_ms) == 1;
}

/// A process that waits until it is killed, with a death sign.
struct Victim {
  Victim() {
    int ready[2];
    EXPECT_EQ(::pipe(ready), 0);
    pid = ::fork();
    if (pid == 0) {
      const DeathSign own = DeathSign::make();
      const std::pair<ProcessIdentity, int> said(ProcessIdentity::of_this_process(), own.number());
      if (::write(ready[1], &said, sizeof(said)) != sizeof(said)) ::_exit(1);
      while (true) ::pause();
    }
    std::pair<ProcessIdentity, int> said;
    EXPECT_EQ(::read(ready[0], &said, sizeof(said)), static_cast<ssize_t>(sizeof(said)));
    identity = said.first;
    sign = said.second;
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Victim() { kill(); }
  void kill() {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
    pid = 0;
  }
  pid_t pid = 0;
  ProcessIdentity identity;
  int sign = -1;
};

TEST(Process, ADeathIsSeenByTheWatchAndByTheSign) {
  Victim victim;
  const auto self = ProcessIdentity::of_this_process();
  const Watch watch = watch_process(victim.identity, self);
  if (watch.state == WatchState::not_possible) GTEST_SKIP() << "no pidfd, or /proc is hidden";
  const Descriptor descriptor(watch.descriptor);
  const Descriptor sign = watch_sign(victim.identity, victim.sign, self);
  ASSERT_TRUE(sign);
  EXPECT_FALSE(hangs_up(sign.get(), 0));
  EXPECT_FALSE(hangs_up(descriptor.get(), 0));
  victim.kill();
  EXPECT_TRUE(hangs_up(sign.get(), kLimitMs));
  EXPECT_TRUE(hangs_up(descriptor.get(), kLimitMs));
  EXPECT_EQ(watch_process(victim.identity, self).state, WatchState::already_gone);
  EXPECT_FALSE(watch_sign(victim.identity, victim.sign, self));
}

TEST(Process, AnotherProcessIsNotTakenForThePeer) {
  Victim victim;
  const auto self = ProcessIdentity::of_this_process();
  ProcessIdentity earlier = victim.identity;
  --earlier.start_ticks;  // a process that had this pid before
  EXPECT_NE(watch_process(earlier, self).state, WatchState::watching);
  EXPECT_FALSE(watch_sign(earlier, victim.sign, self));
  ProcessIdentity elsewhere = victim.identity;
  ++elsewhere.pid_namespace;
  EXPECT_EQ(watch_process(elsewhere, self).state, WatchState::not_possible);
  EXPECT_FALSE(watch_sign(victim.identity, STDIN_FILENO, elsewhere));
}

}  // namespace
}  // namespace ferrule
