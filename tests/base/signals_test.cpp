#include "base/signals.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

namespace ferrule {
namespace {

volatile sig_atomic_t taken = 0;

bool is_held(int signal) {
  sigset_t now;
  pthread_sigmask(SIG_BLOCK, nullptr, &now);
  return sigismember(&now, signal) == 1;
}

TEST(SignalsHeld, WaitUntilItEnds) {
  struct sigaction before {};
  ::sigaction(SIGTERM, nullptr, &before);
  ::signal(SIGTERM, [](int) { taken = taken + 1; });
  {
    const SignalsHeld held;
    ::pthread_kill(::pthread_self(), SIGTERM);
    EXPECT_EQ(taken, 0);
    EXPECT_FALSE(is_held(SIGSEGV));
  }
  EXPECT_EQ(taken, 1);
  ::sigaction(SIGTERM, &before, nullptr);
}

TEST(SignalsHeld, ThreadsThatAreStartedMeanwhileTakeNone) {
  std::optional<SignalsHeld> held(std::in_place);
  bool in_thread = false;
  std::thread thread([&] { in_thread = is_held(SIGINT); });
  held.reset();
  thread.join();
  EXPECT_TRUE(in_thread);
  EXPECT_FALSE(is_held(SIGINT));
}

}  // namespace
}  // namespace ferrule
