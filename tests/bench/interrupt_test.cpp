// Ctrl-C, as a terminal sends it: to all processes of the foreground job at once. Nothing may be left of it.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include "bench/program_run.hpp"

namespace ferrule::bench {
namespace {

using namespace std::chrono_literals;

constexpr int kRanks = 3;

template <class Condition>
bool comes_true(const Condition& condition) {
  const auto until = std::chrono::steady_clock::now() + 30s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > until) return false;
    std::this_thread::sleep_for(10ms);
  }
  return true;
}

std::set<std::string> shared_memory() {
  std::set<std::string> names;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm", none)) {
    if (entry.path().filename().string().find("ucx") == 0) names.insert(entry.path());
  }
  return names;
}

/// New ones. Those of other programs that are starting just now go away by themselves.
bool nothing_new_in_shared_memory(const std::set<std::string>& before) {
  const auto now = shared_memory();
  return std::includes(before.begin(), before.end(), now.begin(), now.end());
}

pid_t start_in_a_group(const std::string& out) {
  const pid_t child = ::fork();
  if (child != 0) return child;
  ::setpgid(0, 0);
  const int file = ::open(out.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  ::dup2(file, STDOUT_FILENO);
  ::dup2(file, STDERR_FILENO);
  ::execl(FERRULE_BENCH_PROGRAM, FERRULE_BENCH_PROGRAM, "--ranks", std::to_string(kRanks).c_str(), "-b", "4K",
          "-e", "8K", "-n", "10000000", nullptr);
  ::_exit(127);
}

/// Of the group: the program itself and its ranks.
int processes_of(pid_t group) {
  int count = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", none)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    count += ::getpgid(static_cast<pid_t>(std::stol(name))) == group ? 1 : 0;
  }
  return count;
}

class Interrupt : public ::testing::TestWithParam<int> {};

TEST_P(Interrupt, LeavesNoProcessAndNoFile) {
  const auto files = shared_memory();
  const std::string out = scratch_path("interrupted");
  const pid_t program = start_in_a_group(out);
  ASSERT_GT(program, 0);
  ASSERT_TRUE(comes_true([&] { return processes_of(program) == 1 + kRanks; }));
  std::this_thread::sleep_for(std::chrono::milliseconds(GetParam()));  // connecting, or in the midst of it
  ::kill(-program, SIGINT);
  int status = 0;
  ASSERT_TRUE(comes_true([&] { return ::waitpid(program, &status, WNOHANG) == program; }));
  EXPECT_NE(status, 0);
  EXPECT_TRUE(comes_true([&] { return processes_of(program) == 0; })) << "processes are left";
  EXPECT_TRUE(comes_true([&] { return nothing_new_in_shared_memory(files); }))
      << "files are left in /dev/shm";
  ::kill(-program, SIGKILL);
  std::filesystem::remove(out);
}

INSTANTIATE_TEST_SUITE_P(AfterMs, Interrupt, ::testing::Values(0, 20, 60, 1000));

}  // namespace
}  // namespace ferrule::bench
