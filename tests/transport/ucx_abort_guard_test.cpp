#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "transport/ucx/abort_guard.hpp"

namespace ferrule::transport::ucx {
namespace {

TEST(UcxAbortGuard, ComesBackFromAnAbortAgainAndAgain) {
  const AbortGuard guard;
  for (int i = 0; i < 3; ++i) {
    EXPECT_FALSE(guard.call([] { std::abort(); }));
    int calls = 0;
    EXPECT_TRUE(guard.call([&] { ++calls; }));
    EXPECT_EQ(calls, 1);
  }
}

TEST(UcxAbortGuard, TheInnerOfTwoCallsIsTheOneThatEnds) {
  const AbortGuard guard;
  bool inner = true;
  EXPECT_TRUE(guard.call([&] { inner = guard.call([] { std::abort(); }); }));
  EXPECT_FALSE(inner);
}

TEST(UcxAbortGuard, WhatWasThereBeforeIsThereAfterwards) {
  struct sigaction before {};
  ASSERT_EQ(::sigaction(SIGABRT, nullptr, &before), 0);
  {
    const AbortGuard one;
    const AbortGuard two;
  }
  struct sigaction after {};
  ASSERT_EQ(::sigaction(SIGABRT, nullptr, &after), 0);
  EXPECT_EQ(after.sa_handler, before.sa_handler);
}

TEST(UcxAbortGuard, AHandlerThatTheProgramSetsMeanwhileStays) {
  struct sigaction before {};
  ::sigaction(SIGABRT, nullptr, &before);
  {
    const AbortGuard guard;
    ::signal(SIGABRT, SIG_IGN);
  }
  struct sigaction after {};
  ::sigaction(SIGABRT, nullptr, &after);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
  ::sigaction(SIGABRT, &before, nullptr);
}

TEST(UcxAbortGuardDeath, AnAbortOfTheProgramsOwnEndsIt) {
  const AbortGuard guard;
  EXPECT_EXIT(std::abort(), ::testing::KilledBySignal(SIGABRT), "");
}

TEST(UcxAbortGuardDeath, TheProgramsOwnHandlerHasItsTurn) {
  EXPECT_EXIT(
      {
        ::signal(SIGABRT, [](int) { ::_exit(7); });
        const AbortGuard guard;
        std::abort();
      },
      ::testing::ExitedWithCode(7), "");
}

}  // namespace
}  // namespace ferrule::transport::ucx
