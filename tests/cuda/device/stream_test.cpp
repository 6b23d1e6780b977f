// The caller's stream: what is in it comes before the collective, what comes into it afterwards comes after
// the result, and the host never waits for it.
#include <thread>

#include "base/deadline.hpp"
#include "cuda/device/device_world.hpp"

namespace ferrule::testing {
namespace {

constexpr std::size_t kCount = 5000;
constexpr int kRanks = 3;
constexpr std::chrono::seconds kSoon{30};

class Streams : public DeviceTest {};

struct Rank {
  Rank() : buffer(kCount * sizeof(float)), after(kCount * sizeof(float)) {}
  Stream stream;
  DeviceBuffer buffer;
  DeviceBuffer after;

  Result<Work> start(Communicator& comm, const Residual* residual = nullptr, std::uint64_t step = 0) const {
    AllReduceOptions options;
    options.codec = "int4";
    options.algorithm = "direct";
    options.residual = residual;
    options.step = step;
    options.stream = stream.get();
    return comm.all_reduce_async(TensorView(buffer.floats(), kCount).on_device(), ReduceOp::sum, options);
  }
  /// What the caller does next on its stream: without an order it would copy the input, or half of the
  /// result.
  void copy_result() const {
    const float* from = buffer.floats();
    float* to = after.floats();
    EXPECT_EQ(fake_cuda::enqueue_kernel(stream.get(), "use the result",
                                        [=] { std::memcpy(to, from, kCount * sizeof(float)); }),
              cudaSuccess);
  }
};

Experiment same_experiment() { return {.count = kCount, .steps = 1}; }

TEST_F(Streams, BeginWhenTheInputIsThereAndEndBeforeWhatComesNext) {
  auto host = make_world(kRanks);
  const std::vector<Outcome> expected = run(same_experiment(), host, everybody());
  for (const CommunicatorConfig& config : {CommunicatorConfig(), staged()}) {
    auto comms = make_world(kRanks, config);
    std::vector<Rank> ranks(kRanks);
    std::vector<Work> works;
    for (int r = 0; r < kRanks; ++r) {
      Rank& rank = ranks[static_cast<std::size_t>(r)];
      fake_cuda::hold(rank.stream.get());  // the input is far from ready
      rank.buffer.write(same_experiment().input(r, 0), rank.stream.get());
      auto work = rank.start(comms[static_cast<std::size_t>(r)]);
      ASSERT_TRUE(work.ok()) << work.status().text();
      works.push_back(std::move(work).value());
    }
    EXPECT_EQ(works[0].wait(std::chrono::milliseconds(50)).code(), ErrorCode::timeout);
    EXPECT_FALSE(works[1].test().value());
    for (const Rank& rank : ranks) fake_cuda::release(rank.stream.get());
    for (int r = 0; r < kRanks; ++r) {
      const Rank& rank = ranks[static_cast<std::size_t>(r)];
      const Status status = works[static_cast<std::size_t>(r)].wait(kSoon);
      ASSERT_TRUE(status.ok()) << status.text();
      rank.copy_result();
      EXPECT_TRUE(same_bits(rank.after.read<float>(rank.stream.get()),
                            expected[static_cast<std::size_t>(r)].outputs[0]));
    }
  }
}

TEST_F(Streams, AreHeldByATestThatTellsSuccess) {
  auto comms = make_world(1);
  Rank rank;
  rank.buffer.write(std::vector<float>(kCount, 2.5F), rank.stream.get());
  auto work = rank.start(comms[0]);
  ASSERT_TRUE(work.ok());
  const Deadline limit = Deadline::after(kSoon);
  for (auto done = work->test(); !done.ok() || !*done; done = work->test()) {
    ASSERT_TRUE(done.ok()) << done.status().text();
    ASSERT_FALSE(limit.passed());
    std::this_thread::yield();
  }
  rank.copy_result();
  EXPECT_EQ(rank.after.read<float>(rank.stream.get()), std::vector<float>(kCount, 2.5F));
}

// After the first step, in which memory is allocated.
TEST_F(Streams, AreNeverWaitedForByTheHost) {
  for (const CommunicatorConfig& config : {CommunicatorConfig(), staged()}) {
    auto comms = make_world(kRanks, config);
    std::vector<Rank> ranks(kRanks);
    std::vector<Residual> residuals;
    for (int r = 0; r < kRanks; ++r) residuals.push_back(Residual::create_on_device(kCount).value());
    fake_cuda::Counters before;
    for (unsigned step = 0; step < 5; ++step) {
      if (step == 1) before = fake_cuda::counters();
      on_all_ranks(comms, [&](int r, Communicator& comm) {
        Rank& rank = ranks[static_cast<std::size_t>(r)];
        rank.buffer.write(same_experiment().input(r, step), rank.stream.get());
        auto work = rank.start(comm, &residuals[static_cast<std::size_t>(r)], step);
        ASSERT_TRUE(work.ok()) << work.status().text();
        ASSERT_TRUE(work->wait(kSoon).ok());
        rank.copy_result();
      });
    }
    const fake_cuda::Counters spent = fake_cuda::counters() - before;
    EXPECT_EQ(spent.host_syncs, 0U);
    EXPECT_EQ(spent.allocations, 0U);
    EXPECT_GT(spent.kernels, 0U);
    for (const Rank& rank : ranks) ASSERT_EQ(cudaStreamSynchronize(rank.stream.get()), cudaSuccess);
  }
}

// Many in the queue, of two communicators, on one stream a rank; the fake pauses streams by a seed.
TEST_F(Streams, KeepTheOrderOfManyCollectivesOfTwoCommunicators) {
  for (std::uint64_t seed = 1; seed <= 3; ++seed) {
    fake_cuda::shuffle(seed);
    auto first = make_world(2);
    auto second = make_world(2, staged());
    on_all_ranks(first, [&](int r, Communicator& comm) {
      Rank rank;
      rank.buffer.write(std::vector<float>(kCount, 1.0F), rank.stream.get());
      float expected = 1.0F;
      for (int round = 0; round < 4; ++round) {
        for (Communicator* one : {&comm, &second[static_cast<std::size_t>(r)]}) {
          AllReduceOptions options;
          options.codec = "none";
          options.stream = rank.stream.get();
          const Status status =
              one->all_reduce(TensorView(rank.buffer.floats(), kCount).on_device(), ReduceOp::sum, options);
          ASSERT_TRUE(status.ok()) << status.text();
          expected *= 2.0F;
        }
      }
      EXPECT_EQ(rank.buffer.read<float>(rank.stream.get()), std::vector<float>(kCount, expected));
    });
  }
  fake_cuda::shuffle(0);
}

TEST_F(Streams, OfOtherWorkAreNotWaitedForByChecks) {
  ASSERT_EQ(::setenv("FERRULE_CHECK", "all", 1), 0);
  auto comms = make_world(2, staged());
  ASSERT_EQ(::unsetenv("FERRULE_CHECK"), 0);
  std::vector<Status> statuses(2);
  for (const bool bad : {false, true}) {
    on_all_ranks(comms, [&](int r, Communicator& comm) {
      Rank rank;
      std::vector<float> values(kCount, 1.0F);
      if (bad && r == 1) values[17] = INFINITY;
      rank.buffer.write(values, rank.stream.get());
      auto work = rank.start(comm);
      ASSERT_TRUE(work.ok());
      statuses[static_cast<std::size_t>(r)] = work->wait(kSoon);
    });
    for (const Status& status : statuses) {
      EXPECT_EQ(status.ok(), !bad) << status.text();
      EXPECT_THAT(bad ? status.text() : "+Inf at index 17", ::testing::HasSubstr("+Inf at index 17"));
    }
  }
}

}  // namespace
}  // namespace ferrule::testing
