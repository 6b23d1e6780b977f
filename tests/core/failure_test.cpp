// What goes wrong, and what is then true: errors name who and what, nothing hangs, a failed collective
// commits nothing.
#include <atomic>
#include <chrono>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kCount = 200000;

CommunicatorConfig with_fault(const std::string& fault, std::chrono::nanoseconds timeout = 1500ms) {
  CommunicatorConfig config;
  config.fault = fault;
  config.timeout = timeout;
  return config;
}

struct Outcome {
  std::vector<Status> statuses;
  Ranks residuals_before;
  Ranks residuals_after;
};

// One good int4 collective with feedback, then one into which the fault falls.
Outcome run_with_fault(const std::string& fault, int world) {
  auto comms = make_world(world, with_fault(fault));
  Outcome outcome;
  outcome.statuses.resize(comms.size());
  outcome.residuals_before.resize(comms.size());
  outcome.residuals_after.resize(comms.size());
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    const auto r = static_cast<std::size_t>(rank);
    auto residual = Residual::create(kCount);
    AllReduceOptions options;
    options.codec = "int4";
    options.algorithm = "direct";
    options.residual = &*residual;
    auto data = random_values(kCount, static_cast<unsigned>(rank));
    EXPECT_TRUE(comm.all_reduce({data.data(), kCount}, ReduceOp::sum, options).ok());
    const auto before = residual->values();
    outcome.residuals_before[r].assign(before.begin(), before.end());
    data = random_values(kCount, 100U + static_cast<unsigned>(rank));
    outcome.statuses[r] = comm.all_reduce({data.data(), kCount}, ReduceOp::sum, options);
    const auto after = residual->values();
    outcome.residuals_after[r].assign(after.begin(), after.end());
  });
  return outcome;
}

// Data messages that a rank of two sends in the first collective: one slice, its contribution and its result.
constexpr int kFirstCollective = 2;

TEST(Failure, ALostMessageIsATimeoutThatNamesTheRankAndRollsBack) {
  const Outcome outcome = run_with_fault("drop:nth=" + std::to_string(kFirstCollective + 1) + ",rank=1", 2);
  int timeouts = 0;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const Status& status = outcome.statuses[rank];
    EXPECT_FALSE(status.ok());
    timeouts += status.code() == ErrorCode::timeout ? 1 : 0;
    EXPECT_NE(status.text().find("all_reduce #1"), std::string::npos) << status.text();
    EXPECT_NE(status.text().find("rank "), std::string::npos) << status.text();
    EXPECT_EQ(outcome.residuals_before[rank], outcome.residuals_after[rank])
        << "a failed collective commits nothing";
  }
  EXPECT_GE(timeouts, 1);
}

TEST(Failure, ACorruptPayloadIsCaughtByTheChecksum) {
  ::setenv("FERRULE_CHECKSUM", "1", 1);
  const Outcome outcome =
      run_with_fault("corrupt_payload:nth=" + std::to_string(kFirstCollective + 1) + ",rank=1", 2);
  ::unsetenv("FERRULE_CHECKSUM");
  EXPECT_EQ(outcome.statuses[0].code(), ErrorCode::corrupt) << outcome.statuses[0].text();
  EXPECT_NE(outcome.statuses[0].text().find("rank 1"), std::string::npos) << outcome.statuses[0].text();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_FALSE(outcome.statuses[rank].ok());
    EXPECT_EQ(outcome.residuals_before[rank], outcome.residuals_after[rank]);
  }
}

TEST(Failure, ATruncatedMessageIsAnErrorThatNamesLengths) {
  const Outcome outcome =
      run_with_fault("truncate:nth=" + std::to_string(kFirstCollective + 1) + ",bytes=7,rank=1", 2);
  EXPECT_FALSE(outcome.statuses[0].ok());
  EXPECT_NE(outcome.statuses[0].text().find("bytes"), std::string::npos) << outcome.statuses[0].text();
  for (std::size_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(outcome.residuals_before[rank], outcome.residuals_after[rank]);
  }
}

TEST(Failure, ARankThatDiesIsNoticedByAllOthers) {
  const Outcome outcome =
      run_with_fault("die:nth=" + std::to_string(2 * kFirstCollective + 1) + ",rank=2", 3);
  for (const Status& status : outcome.statuses) EXPECT_FALSE(status.ok());
}

TEST(Failure, ADelayIsNoError) {
  const Outcome outcome =
      run_with_fault("delay:nth=" + std::to_string(kFirstCollective + 1) + ",ms=100,rank=1", 2);
  for (const Status& status : outcome.statuses) EXPECT_TRUE(status.ok()) << status.text();
}

TEST(Failure, AMissingRankIsATimeoutThatNamesIt) {
  CommunicatorConfig config;
  config.timeout = 500ms;
  auto comms = make_world(3, config);
  std::vector<float> data(100, 1.0F);
  std::atomic<int> named{0};
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    if (rank == 1) return;
    std::vector<float> mine = data;
    const Status status = comm.all_reduce({mine.data(), mine.size()});
    EXPECT_FALSE(status.ok());
    if (status.text().find("rank 1") != std::string::npos) ++named;
    // The communicator says the same to all later calls, at once.
    const Status later = comm.all_reduce({mine.data(), mine.size()});
    EXPECT_EQ(later.code(), status.code());
  });
  EXPECT_GE(named.load(), 1);
}

TEST(Failure, AbortWakesEveryWaiter) {
  auto comms = make_world(2);
  std::thread waiter([&] {
    std::vector<float> data(1000, 1.0F);
    const Status status = comms[0].all_reduce({data.data(), data.size()});
    EXPECT_EQ(status.code(), ErrorCode::aborted) << status.text();
  });
  std::this_thread::sleep_for(50ms);
  comms[0].abort();
  waiter.join();
  std::vector<float> data(10, 1.0F);
  EXPECT_EQ(comms[0].all_reduce({data.data(), data.size()}).code(), ErrorCode::aborted);
}

// Ranks leave at different times: what all of them took part in ends well, what comes after is an error at
// once, though nothing was ever agreed on with the one that has left.
TEST(Failure, ARankThatHasLeftIsMissedOnlyInLaterCollectives) {
  CommunicatorConfig config;
  config.timeout = 120s;
  auto comms = make_world(3, config);
  const auto start = std::chrono::steady_clock::now();
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<float> data(1000, 1.0F);
    for (int i = 0; i < 3; ++i) {
      if (rank == 2) std::this_thread::sleep_for(20ms);
      EXPECT_TRUE(comm.all_reduce({data.data(), data.size()}).ok());
    }
    EXPECT_EQ(data[0], 27.0F);
    if (rank == 0) {
      const Communicator gone = std::move(comm);
      return;
    }
    for (const std::size_t count :
         {data.size(), std::size_t{7}}) {  // a plan that is known, and one that is not
      const Status status = comm.all_reduce({data.data(), count});
      EXPECT_EQ(status.code(), ErrorCode::peer_lost) << status.text();
      EXPECT_NE(status.text().find("rank 0 ("), std::string::npos) << status.text();
    }
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s) << "nobody waits for the deadline";
}

TEST(Failure, WhatIsQueuedBehindAFailureFailsWithIt) {
  CommunicatorConfig config;
  config.timeout = 400ms;
  auto comms = make_world(2, config);
  std::vector<std::vector<float>> buffers(50, std::vector<float>(100, 1.0F));
  std::vector<Work> works;
  for (auto& buffer : buffers) {
    auto work = comms[0].all_reduce_async({buffer.data(), buffer.size()});
    ASSERT_TRUE(work.ok());
    works.push_back(std::move(work).value());
  }
  // Rank 1 never calls: one timeout, not fifty of them.
  EXPECT_EQ(works.back().wait(10s).code(), ErrorCode::timeout);
  for (const Work& work : works) EXPECT_TRUE(work.done());
}

TEST(Failure, BadArgumentsAreNamed) {
  auto comms = make_world(1);
  std::vector<float> data(100, 1.0F);
  const auto expect_error = [](const Status& status, ErrorCode code, const char* word) {
    EXPECT_EQ(status.code(), code) << status.text();
    EXPECT_NE(status.text().find(word), std::string::npos) << status.text();
  };
  expect_error(comms[0].all_reduce({static_cast<float*>(nullptr), 10}), ErrorCode::invalid_argument, "null");
  expect_error(comms[0].all_reduce(data.data() + 1, {data.data(), 50}), ErrorCode::invalid_argument,
               "overlap");
  auto* crooked = reinterpret_cast<float*>(reinterpret_cast<char*>(data.data()) + 1);
  expect_error(comms[0].all_reduce({crooked, 10}), ErrorCode::invalid_argument, "aligned");
  expect_error(comms[0].all_reduce({data.data(), SIZE_MAX / 2}), ErrorCode::invalid_argument, "memory");
  AllReduceOptions options;
  options.algorithm = "spiral";
  expect_error(comms[0].all_reduce({data.data(), 10}, ReduceOp::sum, options), ErrorCode::invalid_argument,
               "spiral");
  options.algorithm = "auto";
  options.codec = "int9";
  expect_error(comms[0].all_reduce({data.data(), 10}, ReduceOp::sum, options), ErrorCode::invalid_argument,
               "int9");
  auto residual = Residual::create(7);
  options.codec = "int4";
  options.residual = &*residual;
  expect_error(comms[0].all_reduce({data.data(), 10}, ReduceOp::sum, options), ErrorCode::invalid_argument,
               "7");
  EXPECT_EQ(ferruleAllReduce(data.data(), data.data(), 10, static_cast<ferruleDataType_t>(77), ferruleSum,
                             nullptr, comms[0].handle(), nullptr),
            ferruleInvalidArgument);
  EXPECT_EQ(
      ferruleAllReduce(data.data(), data.data(), 10, ferruleFloat32, ferruleSum, nullptr, nullptr, nullptr),
      ferruleInvalidArgument);
  const Status none = Communicator::local(0).status();
  EXPECT_NE(none.text().find("at least 1"), std::string::npos) << none.text();
  EXPECT_FALSE(Communicator::connect(3, 2, "tcp://127.0.0.1:1").ok());
}

}  // namespace
}  // namespace ferrule::testing
