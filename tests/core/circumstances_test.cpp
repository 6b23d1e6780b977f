// Ranks as processes in narrow circumstances: a tiny /dev/shm, no access to each other's memory, few
// descriptors. They work, or end with an error that says why; never a signal.
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include <chrono>
#include <cstddef>
#include <fstream>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

using namespace std::chrono_literals;

constexpr int kSkipped = 77;

struct Outcome {
  int status = -1;
  std::string said;  ///< on stderr
};

/// Two ranks; prepare(rank) is called in each process first, and may end it with kSkipped.
std::vector<Outcome> run_two(const std::function<void(int)>& prepare, const RankBody& body) {
  char place[] = "/tmp/ferrule-narrow-XXXXXX";
  if (::mkdtemp(place) == nullptr) return {};
  std::vector<pid_t> ranks;
  std::fflush(nullptr);
  const auto log_of = [&](int rank) { return std::string(place) + "/stderr." + std::to_string(rank); };
  for (int rank = 0; rank < 2; ++rank) {
    ranks.push_back(::fork());
    if (ranks.back() != 0) continue;
    const int log = ::open(log_of(rank).c_str(), O_CREAT | O_WRONLY, 0600);
    ::dup2(log, STDERR_FILENO);
    ::setenv("FERRULE_TIMEOUT", "30", 1);
    prepare(rank);
    be_rank(rank, 2, std::string("file://") + place + "/meet", body);
  }
  std::vector<Outcome> outcomes(2);
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ::waitpid(ranks[rank], &outcomes[rank].status, 0);
    std::ifstream log(log_of(static_cast<int>(rank)));
    outcomes[rank].said.assign(std::istreambuf_iterator<char>(log), {});
  }
  std::filesystem::remove_all(place);
  return outcomes;
}

bool was_skipped(const std::vector<Outcome>& outcomes) {
  return std::any_of(outcomes.begin(), outcomes.end(), [](const Outcome& each) {
    return WIFEXITED(each.status) && WEXITSTATUS(each.status) == kSkipped;
  });
}

bool has_ucx() {
  const auto names = split_names(ferruleTransportNames());
  return std::find(names.begin(), names.end(), "ucx") != names.end();
}

void sum_a_megabyte(int rank, Communicator& comm) {
  std::vector<float> x(1 << 18, static_cast<float>(rank + 1));
  const Status status = comm.all_reduce({x.data(), x.size()});
  ASSERT_TRUE(status.ok()) << status.text();
  for (const float each : x) ASSERT_EQ(each, 3.0F);
}

// Where a process may read another's memory (CMA), UCX may; a container can forbid it, here to one rank only.
void forbid_cross_memory(int rank) {
  if (rank != 1) return;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 1, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_writev, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{std::size(code), code};
  ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) ::_exit(kSkipped);
}

TEST(Circumstances, WithoutAccessToEachOthersMemoryRanksWorkAndSayNothing) {
  if (!has_ucx()) GTEST_SKIP() << "this build has no UCX";
  const auto outcomes = run_two(forbid_cross_memory, sum_a_megabyte);
  if (was_skipped(outcomes)) GTEST_SKIP() << "no seccomp filters here";
  for (const Outcome& each : outcomes) {
    EXPECT_EQ(each.status, 0) << each.said;
    EXPECT_EQ(each.said, "");
  }
}

// As containers have it that were started without --shm-size.
void shrink_shared_memory(int /*rank*/) {
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=1m") != 0) {
    ::_exit(kSkipped);
  }
}

TEST(Circumstances, WithATinySharedMemoryRanksWorkOrSayWhatIsFull) {
  if (!has_ucx()) GTEST_SKIP() << "this build has no UCX";
  const auto outcomes = run_two(shrink_shared_memory, sum_a_megabyte);
  if (was_skipped(outcomes)) GTEST_SKIP() << "needs a mount namespace of its own";
  for (const Outcome& each : outcomes) {
    ASSERT_TRUE(WIFEXITED(each.status)) << "signal " << WTERMSIG(each.status) << "; " << each.said;
    EXPECT_EQ(each.status, 0) << each.said;
  }
}

TEST(Circumstances, WithFewDescriptorsRanksWorkOrSaySo) {
  if (!has_ucx()) GTEST_SKIP() << "this build has no UCX";
  const auto outcomes = run_two(
      [](int) {
        rlimit limit{};
        ::getrlimit(RLIMIT_NOFILE, &limit);
        limit.rlim_cur = 64;
        ::setrlimit(RLIMIT_NOFILE, &limit);
      },
      sum_a_megabyte);
  for (const Outcome& each : outcomes) EXPECT_EQ(each.status, 0) << each.said;
}

}  // namespace
}  // namespace ferrule::testing
