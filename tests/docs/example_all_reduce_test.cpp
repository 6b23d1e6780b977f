// The example codec of docs/extending.md works in an all-reduce: within its bound, the same bits on all
// ranks, and nothing lost with error feedback.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <thread>
#include <vector>

#include "ferrule/ferrule.hpp"

namespace ferrule {
namespace {

constexpr int kRanks = 3;
constexpr std::size_t kCount = 5000;

std::vector<float> input_of(int rank) {
  std::vector<float> values(kCount);
  for (std::size_t i = 0; i < kCount; ++i)
    values[i] = std::sin(static_cast<float>(i) * 0.1f + static_cast<float>(rank));
  return values;
}

struct Outcome {
  Status status;
  std::vector<float> output = std::vector<float>(kCount);
  std::vector<float> residual;
};

void reduce(const Communicator& comm, Outcome& outcome) {
  const auto residual = Residual::create(kCount);
  ASSERT_TRUE(residual.ok());
  const std::vector<float> input = input_of(comm.rank());
  AllReduceOptions options;
  options.codec = "tern:block=64";
  options.algorithm = "direct";
  options.residual = &*residual;
  outcome.status = comm.all_reduce(input.data(), {outcome.output.data(), kCount}, ReduceOp::sum, options);
  outcome.residual.assign(residual->values().begin(), residual->values().end());
}

TEST(ExampleCodec, ReducesOverThreeRanks) {
  const auto comms = Communicator::local(kRanks);
  ASSERT_TRUE(comms.ok()) << comms.status().text();
  std::vector<Outcome> outcomes(kRanks);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        reduce((*comms)[static_cast<std::size_t>(rank)], outcomes[static_cast<std::size_t>(rank)]);
      });
    }
  }
  for (const Outcome& outcome : outcomes) {
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.text();
    EXPECT_EQ(std::memcmp(outcome.output.data(), outcomes[0].output.data(), kCount * sizeof(float)), 0);
  }
  // The ledger: sum of inputs = output + sum of residuals.
  for (std::size_t i = 0; i < kCount; ++i) {
    double in = 0;
    double kept = 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      in += input_of(rank)[i];
      kept += outcomes[static_cast<std::size_t>(rank)].residual[i];
    }
    ASSERT_NEAR(in, outcomes[0].output[i] + kept, 1e-5) << "element " << i;
  }
}

}  // namespace
}  // namespace ferrule
