// Asynchronous collectives: handles, deadlines of waiting, order, buffers and communicators that end at odd
// times.
#include <chrono>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

using namespace std::chrono_literals;

TEST(Async, ManyUnderWayAndWaitedForOutOfOrder) {
  auto comms = make_world(3);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<std::vector<float>> buffers;
    std::vector<Work> works;
    for (int i = 0; i < 40; ++i) {
      buffers.emplace_back(1000 + static_cast<std::size_t>(i), static_cast<float>(rank + i));
      auto work = comm.all_reduce_async({buffers.back().data(), buffers.back().size()});
      ASSERT_TRUE(work.ok()) << work.status().text();
      works.push_back(std::move(work).value());
    }
    for (int i = 39; i >= 0; --i) {
      const auto index = static_cast<std::size_t>(i);
      EXPECT_TRUE(works[index].wait(20s).ok());
      EXPECT_TRUE(works[index].done());
      EXPECT_EQ(buffers[index].back(), static_cast<float>(3 + 3 * i));
    }
  });
}

TEST(Async, GoesOnWithoutAnybodyWaiting) {
  auto comms = make_world(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(100000, 1.0F));
  auto first = comms[0].all_reduce_async({data[0].data(), data[0].size()});
  auto second = comms[1].all_reduce_async({data[1].data(), data[1].size()});
  ASSERT_TRUE(first.ok() && second.ok());
  const auto deadline = std::chrono::steady_clock::now() + 20s;
  while (!(first->done() && second->done()) && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(1ms);
  }
  ASSERT_TRUE(first->done() && second->done());
  EXPECT_EQ(data[0], data[1]);
  EXPECT_EQ(data[0][99999], 2.0F);
  EXPECT_GT(first->bytes_sent(), 0U);
}

TEST(Async, AWaitMayEndBeforeTheWorkAndTheWorkGoesOn) {
  auto comms = make_world(2);
  std::vector<std::vector<float>> data(2, std::vector<float>(1000, 1.0F));
  auto work = comms[0].all_reduce_async({data[0].data(), data[0].size()});
  ASSERT_TRUE(work.ok());
  EXPECT_EQ(work->wait(20ms).code(), ErrorCode::timeout);
  EXPECT_FALSE(work->done());
  EXPECT_TRUE(comms[1].all_reduce({data[1].data(), data[1].size()}).ok());
  EXPECT_TRUE(work->wait(20s).ok());
  EXPECT_EQ(data[0][0], 2.0F);
}

TEST(Async, AHandleMayOutliveItsCommunicator) {
  std::vector<Work> works;
  std::vector<std::vector<float>> data(2, std::vector<float>(1000, 1.0F));
  {
    auto comms = make_world(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      auto work = comms[rank].all_reduce_async({data[rank].data(), data[rank].size()});
      ASSERT_TRUE(work.ok());
      works.push_back(std::move(work).value());
    }
    // The communicators are destroyed together: each waits for its work.
    std::thread other(
        [moved = std::make_shared<Communicator>(std::move(comms[1]))]() mutable { moved.reset(); });
    comms.pop_back();
    comms.clear();
    other.join();
  }
  for (const Work& work : works) EXPECT_TRUE(work.wait(1s).ok());
  EXPECT_EQ(data[0][999], 2.0F);
}

TEST(Async, CommunicatorsOfSeveralThreadsDoNotMeet) {
  auto one = make_world(2);
  auto two = make_world(2);
  const auto loop = [](std::vector<Communicator>& comms, float value) {
    on_all_ranks(comms, [&](int, Communicator& comm) {
      for (int i = 0; i < 200; ++i) {
        std::vector<float> data(500, value);
        ASSERT_TRUE(comm.all_reduce({data.data(), data.size()}).ok());
        ASSERT_EQ(data[499], 2.0F * value);
      }
    });
  };
  std::thread first([&] { loop(one, 1.0F); });
  loop(two, 10.0F);
  first.join();
}

TEST(Async, ThreadsMayShareACommunicator) {
  auto comms = make_world(2);
  // The order of calls must be the same on all ranks: both threads of a rank issue the same collective.
  on_all_ranks(comms, [&](int, Communicator& comm) {
    const auto body = [&comm] {
      for (int i = 0; i < 100; ++i) {
        std::vector<float> data(64, 1.0F);
        ASSERT_TRUE(comm.all_reduce({data.data(), data.size()}).ok());
        ASSERT_EQ(data[63], 2.0F);
      }
    };
    std::thread other(body);
    body();
    other.join();
  });
}

}  // namespace
}  // namespace ferrule::testing
