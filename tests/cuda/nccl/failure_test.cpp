// What becomes of collectives on a stream when a rank does not come, dies, or says something else.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/nccl/device_world.hpp"

namespace ferrule::testing {
namespace {

using executor::StreamWatch;
using ::testing::HasSubstr;
using transport::nccl::NcclLink;

// A last resort: who is stuck is found by the fake's own watchdog.
constexpr auto kLong = std::chrono::seconds(50);

Case small_case(int world) {
  Case what;
  what.world = world;
  what.count = 600;
  what.slice_bytes = 1 << 16;
  return what;
}

/// Enqueues and watches.
std::shared_ptr<const executor::StreamTicket> start(Rank& rank, StreamWatch& watch,
                                                    const DeviceTensors& tensors, const Case& what,
                                                    std::chrono::milliseconds timeout) {
  const auto plan = make_plan(what, rank.rank);
  const Status status = rank.run->enqueue(tensors.job(plan, 1), rank.stream, Deadline::after(kLimit));
  EXPECT_TRUE(status.ok()) << status.text();
  auto mark = rank.kernels->mark(rank.stream);
  EXPECT_TRUE(mark.ok());
  return watch.watch(*mark, Deadline::after(timeout), "all_reduce #7");
}

TEST(StreamFailures, AllIsWellWhereAllCome) {
  const Case what = small_case(3);
  const auto inputs = make_inputs(what, 1);
  on_devices(3, [&](Rank& rank) {
    DeviceTensors tensors(what, inputs[static_cast<std::size_t>(rank.rank)]);
    StreamWatch watch(*rank.link);
    for (int i = 0; i < 3; ++i) {
      const auto ticket = start(rank, watch, tensors, what, std::chrono::seconds(50));
      EXPECT_TRUE(ticket->wait(Deadline::after(kLong)));
      EXPECT_TRUE(ticket->status().ok()) << ticket->status().text();
    }
    cudaStreamSynchronize(rank.stream);
  });
}

TEST(StreamFailures, ARankThatDoesNotComeIsATimeout) {
  const Case what = small_case(3);
  const auto inputs = make_inputs(what, 1);
  on_devices(3, [&](Rank& rank) {
    DeviceTensors tensors(what, inputs[static_cast<std::size_t>(rank.rank)]);
    StreamWatch watch(*rank.link);
    if (rank.rank == 1) return;
    const auto ticket = start(rank, watch, tensors, what, std::chrono::milliseconds(300));
    EXPECT_TRUE(ticket->wait(Deadline::after(kLong)));
    EXPECT_EQ(ticket->status().code(), ErrorCode::timeout);
    EXPECT_THAT(ticket->status().text(), HasSubstr("all_reduce #7 has not ended on the device of rank"));
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess) << "the abort ends what is enqueued";
    const Status later =
        rank.run->enqueue(tensors.job(make_plan(what, rank.rank), 2), rank.stream, Deadline::after(kLimit));
    EXPECT_EQ(later.code(), ErrorCode::aborted);
    EXPECT_EQ(watch.failure().code(), ErrorCode::timeout);
  });
}

TEST(StreamFailures, ADeadPeerIsNoticedAtOnce) {
  const Case what = small_case(2);
  const auto inputs = make_inputs(what, 1);
  transport::nccl::Comm victim = nullptr;
  std::atomic<bool> made{false};
  on_devices(2, [&](Rank& rank) {
    DeviceTensors tensors(what, inputs[static_cast<std::size_t>(rank.rank)]);
    StreamWatch watch(*rank.link);
    if (rank.rank == 1) {
      victim = rank.link->comm();
      made = true;
      return;
    }
    const auto ticket = start(rank, watch, tensors, what, kLong);
    while (!made) std::this_thread::yield();
    fake_nccl::kill(victim);
    EXPECT_TRUE(ticket->wait(Deadline::after(kLong)));
    EXPECT_EQ(ticket->status().code(), ErrorCode::peer_lost);
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
  });
}

// A link that is only guarded, as while graphs are replayed.
TEST(StreamFailures, AGuardedLinkIsAbortedToo) {
  std::atomic<bool> guarded{false};
  on_devices(2, [&](Rank& rank) {
    StreamWatch watch(*rank.link);
    if (rank.rank == 1) {
      while (!guarded) std::this_thread::yield();
      return fake_nccl::kill(rank.link->comm());
    }
    watch.guard();
    guarded = true;
    const Deadline limit = Deadline::after(kLong);
    while (watch.failure().ok() && !limit.passed()) std::this_thread::yield();
    EXPECT_EQ(watch.failure().code(), ErrorCode::peer_lost);
  });
}

// In any order of abort, failure, waiting and closing.
TEST(StreamFailures, AbortsFromManyThreadsEndOnceAndCleanly) {
  for (int round = 0; round < 8; ++round) {
    const Case what = small_case(2);
    const auto inputs = make_inputs(what, 1);
    on_devices(2, [&](Rank& rank) {
      fake_cuda::shuffle(static_cast<unsigned>(round + 1));
      DeviceTensors tensors(what, inputs[static_cast<std::size_t>(rank.rank)]);
      auto watch = std::make_unique<StreamWatch>(*rank.link);
      if (rank.rank == 1 && round % 2 == 0) return;
      const auto ticket =
          start(rank, *watch, tensors, what, std::chrono::milliseconds(round % 4 == 3 ? 1 : 50'000));
      std::thread aborts([&] { watch->fail(Status(ErrorCode::aborted, "abort() was called")); });
      std::thread asks([&] {
        for (int i = 0; i < 100; ++i) static_cast<void>(rank.link->health());
      });
      EXPECT_TRUE(ticket->wait(Deadline::after(kLong)));
      aborts.join();
      asks.join();
      EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
      watch.reset();
    });
  }
}

TEST(StreamFailures, AWatchThatIsClosedEndsItsTickets) {
  const Case what = small_case(2);
  const auto inputs = make_inputs(what, 1);
  on_devices(2, [&](Rank& rank) {
    DeviceTensors tensors(what, inputs[static_cast<std::size_t>(rank.rank)]);
    if (rank.rank == 1) return;
    auto watch = std::make_unique<StreamWatch>(*rank.link);
    const auto ticket = start(rank, *watch, tensors, what, kLong);
    watch.reset();
    EXPECT_TRUE(ticket->done());
    EXPECT_EQ(ticket->status().code(), ErrorCode::aborted);
    rank.link->abort();
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
  });
}

// Ranks with different counts: their groups do not fit, NCCL says so, and nobody waits for ever.
TEST(StreamFailures, AnotherCountOnOneRankIsAnError) {
  on_devices(2, [&](Rank& rank) {
    Case what = small_case(2);
    what.count = rank.rank == 0 ? 600 : 900;
    DeviceTensors tensors(what, make_inputs(what, 1)[0]);
    StreamWatch watch(*rank.link);
    Status status =
        rank.run->enqueue(tensors.job(make_plan(what, rank.rank), 1), rank.stream, Deadline::after(kLimit));
    // Whose group ends last may be told at once; the other one's watch sees it.
    if (status.ok()) {
      auto mark = rank.kernels->mark(rank.stream);
      ASSERT_TRUE(mark.ok());
      const auto ticket = watch.watch(*mark, Deadline::after(kLong), "all_reduce #7");
      EXPECT_TRUE(ticket->wait(Deadline::after(kLong)));
      status = ticket->status();
    }
    EXPECT_FALSE(status.ok());
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
  });
}

TEST(StreamFailures, HostMemoryIsRefusedWithACure) {
  on_devices(1, [&](Rank& rank) {
    Case what = small_case(1);
    DeviceTensors tensors(what, make_inputs(what, 1)[0]);
    std::vector<float> host(what.count);
    executor::StreamJob job = tensors.job(make_plan(what, 0), 1);
    job.input = host.data();
    const Status status = rank.run->enqueue(job, rank.stream, Deadline::after(kLimit));
    EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(status.text(), HasSubstr("input is host memory. Copy the tensor to the device"));
  });
}

TEST(StreamFailures, AFailingLaunchIsReported) {
  on_devices(1, [&](Rank& rank) {
    Case what = small_case(1);
    DeviceTensors tensors(what, make_inputs(what, 1)[0]);
    fake_cuda::fail_call("cudaLaunchKernel", cudaErrorLaunchFailure);
    const Status status =
        rank.run->enqueue(tensors.job(make_plan(what, 0), 1), rank.stream, Deadline::after(kLimit));
    EXPECT_EQ(status.code(), ErrorCode::system);
    EXPECT_THAT(status.text(), HasSubstr("cudaErrorLaunchFailure"));
  });
}

// ---- making communicators

TEST(NcclLinks, AdoptWhatTheUserHas) {
  on_devices(2, [&](Rank& rank) {
    auto adopted = NcclLink::adopt(rank.link->comm());
    ASSERT_TRUE(adopted.ok());
    EXPECT_EQ((*adopted)->rank(), rank.rank);
    EXPECT_EQ((*adopted)->size(), 2);
    adopted->reset();
    EXPECT_TRUE(rank.link->health().ok()) << "the user's communicator lives on";
  });
  EXPECT_EQ(NcclLink::adopt(nullptr).status().code(), ErrorCode::invalid_argument);
}

transport::Membership membership_of(int rank, int world) {
  transport::Membership membership;
  membership.rank = rank;
  membership.peers.resize(static_cast<std::size_t>(world));
  return membership;
}

TEST(NcclLinks, WaitForMissingRanksUntilTheDeadlineOnly) {
  fake_cuda::reset({.devices = 2});
  transport::nccl::replace_library(&fake_nccl::library());
  const auto exchange = [](std::string_view, std::string_view mine) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{std::string(mine), "23007"};
  };
  auto link =
      NcclLink::connect(membership_of(0, 2), exchange, Deadline::after(std::chrono::milliseconds(100)));
  EXPECT_EQ(link.status().code(), ErrorCode::timeout);
  EXPECT_THAT(link.status().text(), HasSubstr("not all of the 2 ranks came"));
  EXPECT_EQ(fake_nccl::misuse(), "");
  fake_nccl::reset();
}

TEST(NcclLinks, AnotherVersionElsewhereIsRefusedByName) {
  transport::nccl::replace_library(&fake_nccl::library());
  const auto exchange = [](std::string_view, std::string_view mine) -> Result<std::vector<std::string>> {
    return std::vector<std::string>{std::string(mine), "22809"};
  };
  auto link = NcclLink::connect(membership_of(0, 2), exchange, Deadline::after(kLimit));
  EXPECT_EQ(link.status().code(), ErrorCode::mismatch);
  EXPECT_THAT(link.status().text(), HasSubstr("runs NCCL 2.30.7"));
  EXPECT_THAT(link.status().text(), HasSubstr("runs NCCL 2.28.9"));
}

TEST(NcclLinks, TwoRanksOnOneDeviceAreRefusedAsNcclDoes) {
  fake_cuda::reset({.devices = 1});
  fake_nccl::reset();
  transport::nccl::replace_library(&fake_nccl::library());
  Rendezvous rendezvous(2);
  std::vector<Status> seen(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      auto link = NcclLink::connect(membership_of(rank, 2), rendezvous.exchange_of(rank),
                                    Deadline::after(std::chrono::milliseconds(500)));
      seen[static_cast<std::size_t>(rank)] = link.status();
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const std::string texts = seen[0].text() + seen[1].text();
  EXPECT_FALSE(seen[0].ok());
  EXPECT_FALSE(seen[1].ok());
  EXPECT_THAT(texts, HasSubstr("Duplicate GPU detected"));
  fake_nccl::reset();
}

}  // namespace
}  // namespace ferrule::testing
