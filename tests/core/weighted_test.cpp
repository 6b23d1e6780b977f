// Means in which ranks have weights: sum of weight * x / sum of weights.
#include "core/world.hpp"

namespace ferrule::testing {
namespace {

float value_of(int rank, std::size_t element) {
  return static_cast<float>((element * 37 + static_cast<std::size_t>(rank) * 101) % 257) / 16.0F - 8.0F;
}

double weight_of(int rank) { return rank == 1 ? 0.0 : 0.25 + rank; }

double mean_of(int world, std::size_t element) {
  double sum = 0;
  double weights = 0;
  for (int rank = 0; rank < world; ++rank) {
    sum += weight_of(rank) * static_cast<double>(value_of(rank, element));
    weights += weight_of(rank);
  }
  return sum / weights;
}

AllReduceOptions with_weight(double weight) {
  AllReduceOptions options;
  options.weight = weight;
  return options;
}

template <class T>
void expect_means(int world, double tolerance) {
  constexpr std::size_t kCount = 3001;
  auto comms = make_world(world);
  std::vector<std::vector<T>> results(comms.size(), std::vector<T>(kCount));
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<T> input(kCount);
    for (std::size_t i = 0; i < kCount; ++i) input[i] = static_cast<T>(value_of(rank, i));
    const std::vector<T> before = input;
    auto& output = results[static_cast<std::size_t>(rank)];
    const Status status =
        comm.all_reduce(input.data(), {output.data(), kCount}, ReduceOp::avg, with_weight(weight_of(rank)));
    ASSERT_TRUE(status.ok()) << status.text();
    EXPECT_EQ(input, before);
  });
  for (const auto& result : results) EXPECT_EQ(result, results.front());
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_NEAR(static_cast<double>(results.front()[i]), mean_of(world, i), tolerance)
        << i << " of " << world;
  }
}

TEST(Weighted, MeansAreThoseOfTheDefinitionInWorldsOfAnySize) {
  for (const int world : {1, 2, 3, 5, 8}) {
    expect_means<float>(world, 1e-5);
    expect_means<double>(world, 1e-13);
  }
}

TEST(Weighted, EqualWeightsGiveThePlainMeanBitForBit) {
  constexpr std::size_t kCount = 5000;
  auto comms = make_world(4);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<float> plain(kCount);
    for (std::size_t i = 0; i < kCount; ++i) plain[i] = value_of(rank, i);
    std::vector<float> weighted = plain;
    AllReduceOptions options = with_weight(0.5);
    options.codec = "int8";
    EXPECT_TRUE(comm.all_reduce({weighted.data(), kCount}, ReduceOp::avg, options).ok());
    options.weight.reset();
    EXPECT_TRUE(comm.all_reduce({plain.data(), kCount}, ReduceOp::avg, options).ok());
    EXPECT_EQ(plain, weighted);
  });
}

// With error feedback the mean of many steps is nearer than any one of them.
TEST(Weighted, ResidualsMakeUpForWhatALossyCodecLeavesBehind) {
  constexpr std::size_t kCount = 1000;
  constexpr int kSteps = 64;
  auto comms = make_world(3);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    auto residual = Residual::create(kCount);
    ASSERT_TRUE(residual.ok());
    std::vector<double> total(kCount);
    AllReduceOptions options = with_weight(weight_of(rank));
    options.codec = "int4";
    options.residual = &*residual;
    for (int step = 0; step < kSteps; ++step) {
      std::vector<float> x(kCount);
      for (std::size_t i = 0; i < kCount; ++i) x[i] = value_of(rank, i);
      const Status status = comm.all_reduce({x.data(), kCount}, ReduceOp::avg, options);
      ASSERT_TRUE(status.ok()) << status.text();
      for (std::size_t i = 0; i < kCount; ++i) total[i] += static_cast<double>(x[i]);
    }
    // What is left behind at the end is at most an encode's error a rank and one of the owner's: some 8 / 7
    // each.
    for (std::size_t i = 0; i < kCount; ++i) ASSERT_NEAR(total[i] / kSteps, mean_of(3, i), 8.0 / kSteps);
  });
}

TEST(Weighted, HalfPrecisionIsScaledInSingle) {
  auto comms = make_world(2);
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<std::uint16_t> x(64, rank == 0 ? 0x3f80 : 0x4080);  // bf16: 1 and 4
    const Status status =
        comm.all_reduce({x.data(), x.size(), DType::bf16}, ReduceOp::avg, with_weight(rank == 0 ? 3.0 : 1.0));
    ASSERT_TRUE(status.ok()) << status.text();
    for (const std::uint16_t each : x) ASSERT_EQ(each, 0x3fe0);  // 1.75
  });
}

TEST(Weighted, ARankWithoutAWeightIsAMismatchThatIsSurvived) {
  for (const bool known_plan : {false, true}) {
    auto comms = make_world(3);
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      std::vector<float> x(100, 1.0F);
      if (known_plan) {
        EXPECT_TRUE(comm.all_reduce({x.data(), x.size()}, ReduceOp::avg).ok());
      }
      AllReduceOptions options;
      if (rank != 1) options.weight = 1.0;
      const Status status = comm.all_reduce({x.data(), x.size()}, ReduceOp::avg, options);
      EXPECT_EQ(status.code(), ErrorCode::mismatch) << status.text();
      EXPECT_NE(status.text().find("weighted is"), std::string::npos) << status.text();
      EXPECT_TRUE(comm.all_reduce({x.data(), x.size()}, ReduceOp::avg).ok());
    });
  }
}

TEST(Weighted, WeightsOfWhichNoMeanCanBeMadeAreNamedOnAllRanks) {
  struct Case {
    double mine;  // of rank 1
    double others;
    const char* text;
  };
  auto comms = make_world(3);
  for (const Case& bad : {Case{-1, 1, "the weight of rank 1"}, Case{std::nan(""), 1, "the weight of rank 1"},
                          Case{INFINITY, 1, "the weight of rank 1"}, Case{0, 0, "sum to 0"}}) {
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      float x = 1;
      const Status status =
          comm.all_reduce({&x, 1}, ReduceOp::avg, with_weight(rank == 1 ? bad.mine : bad.others));
      EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << status.text();
      EXPECT_NE(status.text().find(bad.text), std::string::npos) << status.text();
      EXPECT_TRUE(comm.all_reduce({&x, 1}, ReduceOp::avg, with_weight(1)).ok());
    });
  }
}

TEST(Weighted, OnlyMeansOfFloatsHaveWeights) {
  auto comms = make_world(1);
  float x = 1;
  std::int32_t whole = 1;
  EXPECT_EQ(comms[0].all_reduce({&x, 1}, ReduceOp::sum, with_weight(1)).code(), ErrorCode::invalid_argument);
  const Status status = comms[0].all_reduce({&whole, 1}, ReduceOp::avg, with_weight(1));
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_NE(status.text().find("weights are for means"), std::string::npos) << status.text();
}

}  // namespace
}  // namespace ferrule::testing
