// After a death: the survivors go on without the dead. Ranks are threads (one that leaves stands for one that
// dies) or, where a real death is needed, processes.
#include <signal.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

using namespace std::chrono_literals;

CommunicatorConfig with_timeout(std::chrono::nanoseconds timeout) {
  CommunicatorConfig config;
  config.timeout = timeout;
  return config;
}

std::int64_t sum_over(const Communicator& comm, std::int64_t mine) {
  const Status status = comm.all_reduce({&mine, 1});
  EXPECT_TRUE(status.ok()) << status.text();
  return mine;
}

/// Leaves at once if it is one of `dead`; else reduces until that fails, and shrinks.
void lose_and_shrink(int rank, Communicator& comm, const std::vector<int>& dead,
                     const std::function<void(Communicator&)>& then) {
  ASSERT_EQ(sum_over(comm, 1), comm.size());
  if (std::count(dead.begin(), dead.end(), rank) != 0) {
    const Communicator gone = std::move(comm);
    return;
  }
  float value = 1;
  const Status lost = comm.all_reduce({&value, 1});
  EXPECT_FALSE(lost.ok());
  auto smaller = comm.shrink();
  ASSERT_TRUE(smaller.ok()) << smaller.status().text();
  then(*smaller);
}

TEST(Shrink, SurvivorsGoOnInTheirOldOrder) {
  for (const std::vector<int>& dead : std::vector<std::vector<int>>{{2}, {0}, {3}, {0, 1}, {1, 2, 3}}) {
    auto comms = make_world(4, with_timeout(20s));
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      lose_and_shrink(rank, comm, dead, [&](Communicator& smaller) {
        const auto before = std::count_if(dead.begin(), dead.end(), [&](int other) { return other < rank; });
        EXPECT_EQ(smaller.rank(), rank - before);
        EXPECT_EQ(smaller.size(), 4 - static_cast<int>(dead.size()));
        EXPECT_EQ(sum_over(smaller, 1), smaller.size());
      });
    });
  }
}

TEST(Shrink, AgainAndAgainDownToOne) {
  auto comms = make_world(4, with_timeout(20s));
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    Communicator current = std::move(comm);
    for (int dies = 0; dies < rank; ++dies) {
      EXPECT_EQ(sum_over(current, 1), 4 - dies);
      float value = 1;
      EXPECT_FALSE(current.all_reduce({&value, 1}).ok());
      auto smaller = current.shrink();
      ASSERT_TRUE(smaller.ok()) << smaller.status().text();
      current = std::move(smaller).value();
    }
    EXPECT_EQ(sum_over(current, 1), 4 - rank);
  });
}

TEST(Shrink, APartOfACommunicatorShrinksToo) {
  auto comms = make_world(4, with_timeout(20s));
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    auto part = comm.split(rank == 3 ? -1 : 0, -rank);
    ASSERT_TRUE(part.ok()) << part.status().text();
    if (rank == 3) return;
    lose_and_shrink(2 - rank, *part, {1}, [&](Communicator& smaller) {
      EXPECT_EQ(smaller.rank(), rank == 2 ? 0 : 1);
      EXPECT_EQ(sum_over(smaller, rank), 2);
    });
  });
}

TEST(Shrink, AMinorityDoesNotGoOnAndMayTryAgain) {
  auto comms = make_world(2, with_timeout(1s));
  comms[0].abort();
  const Status refused = comms[0].shrink().status();
  EXPECT_EQ(refused.code(), ErrorCode::timeout);
  EXPECT_NE(refused.text().find("waiting for rank 1 ("), std::string::npos) << refused.text();
  EXPECT_NE(refused.text().find("no majority"), std::string::npos) << refused.text();
  on_all_ranks(comms, [&](int, Communicator& comm) {
    // Rank 0's first post or answer is of the earlier try: it must not be taken for this one.
    auto smaller = comm.shrink();
    ASSERT_TRUE(smaller.ok()) << smaller.status().text();
    EXPECT_EQ(sum_over(*smaller, 1), 2);
  });
}

/// Of three ranks one lives and never comes; of the others one comes first.
void shrink_without(int away, int first) {
  auto comms = make_world(3, with_timeout(6s));
  std::promise<void> over;
  const std::shared_future<void> is_over = over.get_future();
  std::atomic<int> still_there = 2;
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    if (rank == away) return is_over.wait();
    if (rank != first) std::this_thread::sleep_for(700ms);
    auto smaller = comm.shrink();
    if (--still_there == 0) over.set_value();
    ASSERT_TRUE(smaller.ok()) << "without " << away << ", first " << first << ": " << smaller.status().text();
    EXPECT_EQ(smaller->size(), 2);
    EXPECT_EQ(sum_over(*smaller, 1), 2);
  });
}

TEST(Shrink, WithoutALiveRankTheOthersGoOnWhoeverComesFirst) {
  std::vector<std::thread> worlds;  // which mostly wait
  for (int away = 0; away < 3; ++away) {
    for (int first = 0; first < 3; ++first) {
      if (first != away) worlds.emplace_back(shrink_without, away, first);
    }
  }
  for (std::thread& world : worlds) world.join();
}

TEST(Shrink, OneThatOughtToLeadAndComesLateFollows) {
  auto comms = make_world(3, with_timeout(5s));
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    if (rank == 0) std::this_thread::sleep_for(2900ms);  // the others have given it up, and wait for it still
    auto smaller = comm.shrink();
    ASSERT_TRUE(smaller.ok()) << smaller.status().text();
    EXPECT_EQ(smaller->size(), 3);
    EXPECT_EQ(smaller->rank(), rank);
    EXPECT_EQ(sum_over(*smaller, 1), 3);
  });
}

TEST(Shrink, ResidualsAreKeptOrResetAsAsked) {
  constexpr std::size_t kCount = 5000;
  for (const auto policy : {ferruleKeepResiduals, ferruleResetResiduals}) {
    auto comms = make_world(3, with_timeout(20s));
    Ranks before(3);
    Ranks after(3);
    Ranks inputs = random_ranks(3, kCount, 5);
    Ranks outputs(3);
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      const auto r = static_cast<std::size_t>(rank);
      auto residual = Residual::create(kCount);
      AllReduceOptions options;
      options.codec = "int4";
      options.residual = &*residual;
      auto data = inputs[r];
      ASSERT_TRUE(comm.all_reduce({data.data(), kCount}, ReduceOp::sum, options).ok());
      if (rank == 1) {
        const Communicator gone = std::move(comm);
        return;
      }
      data = inputs[r];
      EXPECT_FALSE(comm.all_reduce({data.data(), kCount}, ReduceOp::sum, options).ok());
      before[r].assign(residual->values().begin(), residual->values().end());
      auto smaller = comm.shrink(policy);
      ASSERT_TRUE(smaller.ok()) << smaller.status().text();
      outputs[r] = inputs[r];
      ASSERT_TRUE(smaller->all_reduce({outputs[r].data(), kCount}, ReduceOp::sum, options).ok());
      after[r].assign(residual->values().begin(), residual->values().end());
    });
    if (HasFailure()) return;
    EXPECT_EQ(outputs[0], outputs[2]);
    const bool keeps = policy == ferruleKeepResiduals;
    for (std::size_t i = 0; i < kCount; ++i) {  // the ledger of the survivors
      const float carried = keeps ? before[0][i] + before[2][i] : 0.0F;
      EXPECT_NEAR(inputs[0][i] + inputs[2][i] + carried, outputs[0][i] + after[0][i] + after[2][i], 1e-4)
          << i;
    }
  }
}

TEST(Shrink, BadArgumentsAreNamed) {
  ferruleComm_t smaller = nullptr;
  EXPECT_EQ(ferruleCommShrink(nullptr, &smaller, ferruleKeepResiduals), ferruleInvalidArgument);
  auto comms = make_world(1);
  EXPECT_EQ(ferruleCommShrink(comms[0].handle(), nullptr, ferruleKeepResiduals), ferruleInvalidArgument);
  EXPECT_EQ(ferruleCommShrink(comms[0].handle(), &smaller, static_cast<ferruleResidualPolicy_t>(9)),
            ferruleInvalidArgument);
  EXPECT_NE(std::string(ferruleGetLastError()).find("residual policy"), std::string::npos);
}

// ---- real deaths

bool has_ucx() {
  const auto names = split_names(ferruleTransportNames());
  return std::find(names.begin(), names.end(), "ucx") != names.end();
}

/// Processes, each with body(rank, comm); those that die by SIGKILL are expected to.
void run_processes(int size, const std::vector<int>& dead, const RankBody& body) {
  char place[] = "/tmp/ferrule-shrink-XXXXXX";
  ASSERT_NE(::mkdtemp(place), nullptr);
  std::vector<pid_t> ranks;
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::setenv("FERRULE_TIMEOUT", "20", 1);
      be_rank(rank, size, std::string("file://") + place + "/meet", body);
    }
    ranks.push_back(child);
  }
  for (int rank = 0; rank < size; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(ranks[static_cast<std::size_t>(rank)], &status, 0),
              ranks[static_cast<std::size_t>(rank)]);
    const bool dies = std::count(dead.begin(), dead.end(), rank) != 0;
    EXPECT_EQ(dies ? WIFSIGNALED(status) : status == 0, true) << "rank " << rank << ": status " << status;
  }
  std::filesystem::remove_all(place);
}

class ShrinkAfterKill : public ::testing::TestWithParam<std::vector<int>> {};

TEST_P(ShrinkAfterKill, ProcessesGoOn) {
  if (!has_ucx()) GTEST_SKIP() << "this build has no UCX";
  const std::vector<int> dead = GetParam();
  run_processes(4, dead, [&](int rank, Communicator& comm) {
    float value = 1;
    Status status = comm.all_reduce({&value, 1});
    if (std::count(dead.begin(), dead.end(), rank) != 0) ::raise(SIGKILL);
    while (status.ok()) status = comm.all_reduce({&value, 1});
    EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.text();
    auto smaller = comm.shrink();
    ASSERT_TRUE(smaller.ok()) << smaller.status().text();
    EXPECT_EQ(smaller->size(), 4 - static_cast<int>(dead.size()));
    EXPECT_EQ(sum_over(*smaller, 1), smaller->size());
  });
}

INSTANTIATE_TEST_SUITE_P(Dead, ShrinkAfterKill,
                         ::testing::Values(std::vector<int>{2}, std::vector<int>{0}, std::vector<int>{0, 1},
                                           std::vector<int>{0, 1, 3}));

// The one that would lead, and then another, die while survivors gather: those that are left find each other,
// though some may have to try again.
TEST(ShrinkDuringKills, ThoseThatAreLeftFindEachOther) {
  if (!has_ucx()) GTEST_SKIP() << "this build has no UCX";
  run_processes(4, {0, 1, 3}, [&](int rank, Communicator& comm) {
    float value = 1;
    Status status = comm.all_reduce({&value, 1});
    if (rank == 3) ::raise(SIGKILL);
    while (status.ok()) status = comm.all_reduce({&value, 1});
    std::thread killer;
    if (rank == 0) {
      std::this_thread::sleep_for(100ms);  // the others have posted to it
      ::raise(SIGKILL);
    }
    if (rank == 1) {
      killer = std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(::getpid() % 200));
        ::raise(SIGKILL);
      });
    }
    for (int tries = 0; tries < 10; ++tries) {
      auto smaller = comm.shrink();
      if (!smaller.ok()) continue;
      while (smaller->size() > 1) {  // rank 1 is still in it
        float one = 1;
        Status lost;
        while (lost.ok()) lost = smaller->all_reduce({&one, 1});
        auto next = smaller->shrink();
        if (next.ok()) smaller = std::move(next);
      }
      EXPECT_EQ(smaller->rank(), 0);
      EXPECT_EQ(sum_over(*smaller, 1), 1);
      return;
    }
    ADD_FAILURE() << "ten tries";
  });
}

}  // namespace
}  // namespace ferrule::testing
