#include "bench/ferrule_bench/child_processes.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <new>
#include <thread>

namespace ferrule::bench {
namespace {

ChildProcesses children(int ranks) { return {ranks, 200, "some-program"}; }

/// Memory that a process and its children see alike.
struct Shared {
  std::atomic<int> pids[8];
  std::atomic<int> cleaned{0};

  static Shared* make() {
    void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return new (memory) Shared{};
  }
};

void sleep_long() { std::this_thread::sleep_for(std::chrono::seconds(60)); }

/// Does the process end within some seconds? (It may be a zombie of init's for a moment.)
bool ends_soon(int pid) {
  for (int i = 0; i < 500; ++i) {
    if (kill(pid, 0) != 0) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void wait_for(const std::atomic<int>& value) {
  for (int i = 0; i < 1000 && value == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  ASSERT_NE(value, 0);
}

TEST(ChildProcesses, ExitCodeIsTheLargest) {
  EXPECT_EQ(run_child_processes(
                children(3), [](int) { return 0; }, [] {}),
            0);
  EXPECT_EQ(run_child_processes(
                children(3), [](int rank) { return rank == 1 ? 1 : 0; }, [] {}),
            1);
}

TEST(ChildProcesses, ADeadChildIsNamedAndTheOthersAreEnded) {
  testing::internal::CaptureStderr();
  const auto start = std::chrono::steady_clock::now();
  const int code = run_child_processes(
      children(3),
      [](int rank) {
        if (rank == 1) raise(SIGKILL);
        sleep_long();
        return 0;
      },
      [] {});
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_EQ(code, 3);
  EXPECT_NE(text.find("rank 1"), std::string::npos) << text;
  EXPECT_NE(text.find("Killed"), std::string::npos) << text;
  EXPECT_EQ(text.find("rank 0"), std::string::npos) << text;
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30))
      << "it waited for the sleepers";
}

TEST(ChildProcesses, AStubbornChildIsKilled) {
  testing::internal::CaptureStderr();
  const int code = run_child_processes(
      children(2),
      [](int rank) {
        if (rank == 0) return 3;
        signal(SIGTERM, SIG_IGN);
        sleep_long();
        return 0;
      },
      [] {});
  EXPECT_EQ(code, 3);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("rank 0"), std::string::npos);
}

/// A process that supervises two sleepers; returns its pid once both run.
pid_t start_supervisor(Shared* shared) {
  const pid_t supervisor = fork();
  if (supervisor == 0) {
    _exit(run_child_processes(
        children(2),
        [&](int rank) {
          shared->pids[rank] = getpid();
          sleep_long();
          return 0;
        },
        [&] { shared->cleaned = 1; }));
  }
  wait_for(shared->pids[0]);
  wait_for(shared->pids[1]);
  return supervisor;
}

TEST(ChildProcesses, ASignalEndsAllAndCleansUp) {
  for (const int signal : {SIGINT, SIGTERM}) {
    Shared* shared = Shared::make();
    const pid_t supervisor = start_supervisor(shared);
    kill(supervisor, signal);
    int status = 0;
    ASSERT_EQ(waitpid(supervisor, &status, 0), supervisor);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << status;
    EXPECT_EQ(shared->cleaned, 1);
    EXPECT_TRUE(ends_soon(shared->pids[0]));
    EXPECT_TRUE(ends_soon(shared->pids[1]));
  }
}

TEST(ChildProcesses, NoChildOutlivesAKilledParent) {
  Shared* shared = Shared::make();
  const pid_t supervisor = start_supervisor(shared);
  kill(supervisor, SIGKILL);
  int status = 0;
  ASSERT_EQ(waitpid(supervisor, &status, 0), supervisor);
  EXPECT_TRUE(ends_soon(shared->pids[0]));
  EXPECT_TRUE(ends_soon(shared->pids[1]));
}

}  // namespace
}  // namespace ferrule::bench
