// Parts of a communicator: who is in which, and that they and the parent do not get in each other's way.
#include <chrono>
#include <mutex>
#include <numeric>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

using namespace std::chrono_literals;

Communicator take_split(Communicator& comm, int color, int key) {
  auto child = comm.split(color, key);
  EXPECT_TRUE(child.ok()) << child.status().text();
  return child.ok() ? std::move(child).value() : Communicator(ferruleComm_t{});
}

void expect_sum(const Communicator& comm, std::int64_t mine, std::int64_t sum) {
  const Status status = comm.all_reduce({&mine, 1});
  EXPECT_TRUE(status.ok()) << status.text();
  EXPECT_EQ(mine, sum);
}

TEST(Split, RanksOfAColourMeetInOrderOfKeyThenRank) {
  run_world(5, [](int rank, Communicator& comm) {
    const int keys[] = {7, 0, -3, 0, 7};
    const Communicator child = take_split(comm, rank % 2, keys[rank]);
    const int size = rank % 2 == 0 ? 3 : 2;
    const int expected[] = {1, 0, 0, 1, 2};  // colour 0: ranks 2, 0, 4; colour 1: ranks 1, 3
    ASSERT_NE(child.handle(), nullptr);
    EXPECT_EQ(child.size(), size);
    EXPECT_EQ(child.rank(), expected[rank]);
    expect_sum(child, rank, rank % 2 == 0 ? 6 : 4);
    expect_sum(comm, rank, 10);
  });
}

TEST(Split, ANegativeColourTakesNoPart) {
  run_world(3, [](int rank, Communicator& comm) {
    const Communicator child = take_split(comm, rank == 1 ? -1 : 4, 0);
    if (rank == 1) {
      EXPECT_EQ(child.handle(), nullptr);
    } else {
      EXPECT_EQ(child.size(), 2);
      expect_sum(child, rank, 2);
    }
    expect_sum(comm, 1, 3);
  });
}

TEST(Split, PartsCanBeSplitAgainAndOutliveTheParent) {
  auto comms = make_world(4);
  on_all_ranks(comms, [](int rank, Communicator& comm) {
    Communicator half = take_split(comm, rank / 2, 0);
    const Communicator alone = take_split(half, half.rank(), 0);
    EXPECT_EQ(alone.size(), 1);
    { const Communicator gone = std::move(comm); }
    expect_sum(half, rank, rank < 2 ? 1 : 5);
    expect_sum(alone, rank, rank);
  });
}

TEST(Split, LossySumsHaveTheSettingsOfTheParent) {
  CommunicatorConfig config;
  config.codec = "int8";
  auto comms = make_world(4, config);
  on_all_ranks(comms, [](int rank, Communicator& comm) {
    const Communicator child = take_split(comm, rank % 2, 0);
    std::vector<float> data(100000, 1.0F);
    const auto before = child.stats().bytes_sent;
    ASSERT_TRUE(child.all_reduce({data.data(), data.size()}).ok());
    EXPECT_LT(child.stats().bytes_sent - before, data.size() * 2) << "int8 sends a quarter of the bytes";
    EXPECT_NEAR(data[77777], 2.0F, 0.1F);
  });
}

// Rows and columns of a grid, and the parent: each driven by a thread of its own, waits out of order.
TEST(Split, OverlappingGroupsWorkAtTheSameTime) {
  constexpr int kSide = 2;
  run_world(kSide * kSide, [](int rank, Communicator& comm) {
    const int row_number = rank / kSide;
    const int column_number = rank % kSide;
    const Communicator row = take_split(comm, row_number, 0);
    const Communicator column = take_split(comm, column_number, 0);
    const auto drive = [](const Communicator& group, std::int64_t mine, std::int64_t sum) {
      constexpr int kRounds = 30;
      constexpr std::size_t kCount = 3000;
      std::vector<std::vector<std::int64_t>> data(kRounds, std::vector<std::int64_t>(kCount));
      std::vector<Work> works;
      for (int round = 0; round < kRounds; ++round) {
        auto& values = data[static_cast<std::size_t>(round)];
        std::fill(values.begin(), values.end(), mine + 1000 * round);
        auto work = group.all_reduce_async({values.data(), kCount});
        ASSERT_TRUE(work.ok()) << work.status().text();
        works.push_back(std::move(work).value());
      }
      for (int round = kRounds - 1; round >= 0; --round) {
        const auto r = static_cast<std::size_t>(round);
        const Status status = works[r].wait(60s);
        ASSERT_TRUE(status.ok()) << status.text();
        EXPECT_EQ(data[r], std::vector<std::int64_t>(kCount, sum + 1000LL * round * group.size()));
      }
    };
    std::thread along([&] { drive(row, rank, 4 * row_number + 1); });
    std::thread across([&] { drive(column, rank, 2 * column_number + 2); });
    drive(comm, rank, 6);
    along.join();
    across.join();
  });
}

TEST(Split, AbortOfAPartWakesItsWaitersAndNobodyElse) {
  auto comms = make_world(4);
  on_all_ranks(comms, [](int rank, Communicator& comm) {
    const Communicator child = take_split(comm, rank % 2, 0);
    std::thread aborter;
    if (rank == 0) {
      aborter = std::thread([&] {
        std::this_thread::sleep_for(50ms);
        child.abort();
      });
    }
    if (rank == 2) std::this_thread::sleep_for(100ms);  // rank 0 waits for it, until the abort
    if (rank % 2 == 0) {
      float value = 1;
      const Status status = child.all_reduce({&value, 1});
      EXPECT_EQ(status.code(), ErrorCode::aborted) << status.text();
    } else {
      expect_sum(child, rank, 4);
    }
    if (aborter.joinable()) aborter.join();
    expect_sum(comm, rank, 6);
  });
}

TEST(Split, ManyTimesWithoutLeavingAnythingBehind) {
  auto comms = make_world(3);
  on_all_ranks(comms, [](int rank, Communicator& comm) {
    for (int round = 0; round < 25; ++round) {
      const Communicator child = take_split(comm, (rank + round) % 2, -rank);
      expect_sum(child, 1, child.size());
    }
  });
}

TEST(Split, BadArgumentsAreNamed) {
  ferruleComm_t child = nullptr;
  EXPECT_EQ(ferruleCommSplit(nullptr, 0, 0, &child), ferruleInvalidArgument);
  auto comms = make_world(1);
  EXPECT_EQ(ferruleCommSplit(comms[0].handle(), 0, 0, nullptr), ferruleInvalidArgument);
  comms[0].abort();
  EXPECT_EQ(comms[0].split(0).status().code(), ErrorCode::aborted);
}

}  // namespace
}  // namespace ferrule::testing
