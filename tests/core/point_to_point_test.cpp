// Sends and receives: every size, tags, any source, beside collectives, and how they fail.
#include "core/world.hpp"

namespace ferrule::testing {
namespace {

#define REQUIRE_OK(expression)                   \
  do {                                           \
    const Status status_ = (expression);         \
    ASSERT_TRUE(status_.ok()) << status_.text(); \
  } while (false)

std::vector<std::int32_t> numbers(std::size_t count, int seed) {
  std::vector<std::int32_t> all(count);
  for (std::size_t i = 0; i < count; ++i) all[i] = static_cast<std::int32_t>(i * 3) + seed * 1000003;
  return all;
}

constexpr std::size_t kSizes[] = {0, 1, 100, 1024, 1025, 16128, 50000, 1000003};

TEST(PointToPoint, EverySizeArrivesRoundARing) {
  for (const int world : {2, 3, 5}) {
    run_world(world, [&](int rank, Communicator& comm) {
      for (const std::size_t count : kSizes) {
        std::vector<std::int32_t> mine = numbers(count, rank);
        std::vector<std::int32_t> got(count, -1);
        const int from = (rank + world - 1) % world;
        Work sent;
        REQUIRE_OK(comm.send({mine.data(), count}, (rank + 1) % world, 3, {}, &sent));
        REQUIRE_OK(comm.recv({got.data(), count}, from, 3));
        REQUIRE_OK(sent.wait());
        ASSERT_EQ(got, numbers(count, from)) << count << " elements";
        ASSERT_GE(sent.bytes_sent(), count * sizeof(std::int32_t));
      }
    });
  }
}

TEST(PointToPoint, TagsAndOrderDecideWhichReceiveTakesWhat) {
  run_world(2, [&](int rank, Communicator& comm) {
    for (const std::size_t count : {10UL, 20000UL}) {
      constexpr int kEach = 5;
      if (rank == 0) {
        std::vector<std::vector<std::int32_t>> data;
        std::vector<Work> works(2 * kEach);
        for (int i = 0; i < 2 * kEach; ++i) data.push_back(numbers(count, i));
        for (int i = 0; i < 2 * kEach; ++i) {
          const auto at = static_cast<std::size_t>(i);
          REQUIRE_OK(
              comm.send({data[at].data(), count}, 1, static_cast<std::uint32_t>(i % 2), {}, &works[at]));
        }
        for (Work& work : works) REQUIRE_OK(work.wait());
      } else {
        for (int tag = 1; tag >= 0; --tag) {
          for (int i = 0; i < kEach; ++i) {
            std::vector<std::int32_t> got(count);
            REQUIRE_OK(comm.recv({got.data(), count}, 0, static_cast<std::uint32_t>(tag)));
            ASSERT_EQ(got, numbers(count, 2 * i + tag));
          }
        }
      }
    }
  });
}

TEST(PointToPoint, AReceiveFromAnyRankSaysWhoseItIs) {
  run_world(4, [&](int rank, Communicator& comm) {
    if (rank != 0) {
      std::vector<std::int32_t> mine = numbers(7000, rank);
      REQUIRE_OK(comm.send({mine.data(), mine.size()}, 0));
      return;
    }
    std::vector<int> sources;
    for (int i = 1; i < 4; ++i) {
      std::vector<std::int32_t> got(7000);
      Work work;
      REQUIRE_OK(comm.recv({got.data(), got.size()}, FERRULE_ANY_RANK, 0, {}, &work));
      REQUIRE_OK(work.wait());
      ASSERT_EQ(got, numbers(7000, work.source()));
      sources.push_back(work.source());
    }
    std::sort(sources.begin(), sources.end());
    EXPECT_EQ(sources, (std::vector<int>{1, 2, 3}));
  });
}

// Rank 0 waits for a message while a collective of its own is under way that rank 1 will not join before it
// has had an answer.
TEST(PointToPoint, NeitherHoldsUpACollectiveNorIsHeldUpByOne) {
  run_world(2, [&](int rank, Communicator& comm) {
    for (const std::size_t count : {4UL, 30000UL}) {
      std::vector<std::int32_t> sum(1000, rank + 1);
      std::vector<std::int32_t> message(count, rank);
      if (rank == 0) {
        auto work = comm.all_reduce_async({sum.data(), sum.size()});
        ASSERT_TRUE(work.ok());
        REQUIRE_OK(comm.recv({message.data(), count}, 1));
        REQUIRE_OK(comm.send({message.data(), count}, 1));
        REQUIRE_OK(work->wait());
      } else {
        REQUIRE_OK(comm.send({message.data(), count}, 0));
        REQUIRE_OK(comm.recv({message.data(), count}, 0));
        REQUIRE_OK(comm.all_reduce({sum.data(), sum.size()}));
      }
      ASSERT_EQ(message, std::vector<std::int32_t>(count, 1));
      ASSERT_EQ(sum, std::vector<std::int32_t>(1000, 3));
    }
  });
}

TEST(PointToPoint, AReceiveThatWaitsLetsCollectivesPass) {
  run_world(2, [&](int rank, Communicator& comm) {
    std::vector<std::int32_t> got(100);
    Work received;
    if (rank == 0) REQUIRE_OK(comm.recv({got.data(), 100}, 1, 0, {}, &received));
    for (int turn = 0; turn < 50; ++turn) {
      std::vector<std::int32_t> sum(100, 1);
      REQUIRE_OK(comm.all_reduce({sum.data(), 100}));
      ASSERT_EQ(sum[99], 2);
    }
    if (rank == 1) {
      std::vector<std::int32_t> mine = numbers(100, 1);
      REQUIRE_OK(comm.send({mine.data(), 100}, 0));
    } else {
      REQUIRE_OK(received.wait());
      ASSERT_EQ(got, numbers(100, 1));
    }
  });
}

TEST(PointToPoint, ManySmallOnesWaitForARankThatIsSlow) {
  run_world(2, [&](int rank, Communicator& comm) {
    constexpr int kMany = 500;
    if (rank == 0) {
      std::vector<std::int32_t> data = numbers(kMany, 0);
      std::vector<Work> works(kMany);
      for (std::size_t i = 0; i < kMany; ++i) REQUIRE_OK(comm.send({&data[i], 1}, 1, 0, {}, &works[i]));
      for (Work& work : works) REQUIRE_OK(work.wait());
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      for (int i = 0; i < kMany; ++i) {
        std::int32_t got = -1;
        REQUIRE_OK(comm.recv({&got, 1}, 0));
        ASSERT_EQ(got, i * 3);
      }
    }
  });
}

TEST(PointToPoint, OtherLengthsAreNamedOnBothSides) {
  auto comms = make_world(2);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<std::int32_t> data(40000);
    const Status status = rank == 0 ? comm.send({data.data(), 40000}, 1) : comm.recv({data.data(), 30000}, 0);
    EXPECT_EQ(status.code(), ErrorCode::mismatch);
    EXPECT_NE(status.text().find("160000"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("120000"), std::string::npos) << status.text();
    REQUIRE_OK(comm.barrier());  // the communicator is as good as before
  });
}

TEST(PointToPoint, NoReceiveWaitsForEver) {
  CommunicatorConfig config;
  config.timeout = std::chrono::milliseconds(300);
  auto comms = make_world(2, config);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    if (rank == 1) return;
    std::int32_t got = 0;
    const Status status = comm.recv({&got, 1}, 1, 5);
    EXPECT_EQ(status.code(), ErrorCode::timeout);
    EXPECT_NE(status.text().find("recv from rank 1"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("tag 5"), std::string::npos) << status.text();
  });
}

TEST(PointToPoint, AnAbortEndsIt) {
  auto comms = make_world(2);
  std::int32_t got = 0;
  Work work;
  REQUIRE_OK(comms[0].recv({&got, 1}, 1, 0, {}, &work));
  std::thread other([&] { comms[0].abort(); });
  EXPECT_EQ(work.wait(std::chrono::seconds(20)).code(), ErrorCode::aborted);
  other.join();
}

TEST(PointToPoint, ARankThatLeavesIsMissed) {
  auto comms = make_world(2);
  std::int32_t got = 0;
  Work work;
  REQUIRE_OK(comms[0].recv({&got, 1}, 1, 0, {}, &work));
  comms.pop_back();
  const Status status = work.wait(std::chrono::seconds(20));
  EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.text();
}

TEST(PointToPoint, ACommunicatorMayBeClosedWithAReceiveOpen) {
  std::int32_t got = 0;
  Work work;
  auto comms = make_world(2);
  REQUIRE_OK(comms[0].recv({&got, 1}, 1, 0, {}, &work));
  comms.clear();
  EXPECT_TRUE(work.done());
  EXPECT_FALSE(work.wait(std::chrono::seconds(5)).ok());
}

}  // namespace
}  // namespace ferrule::testing
