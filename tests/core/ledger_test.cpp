// The ledger: nothing is lost, only delayed. Per element and step, the sum over ranks of (input + residual
// before) equals the output plus the sum over ranks of (residual after), for every lossy codec and every
// algorithm. And values that are not finite pass through without ever entering a residual.
#include <limits>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

constexpr std::size_t kCount = 3001;

struct World {
  explicit World(int size) : comms(make_world(size)) {
    for (int rank = 0; rank < size; ++rank) {
      auto made = Residual::create(kCount);
      EXPECT_TRUE(made.ok());
      residuals.push_back(std::move(made).value());
    }
  }
  std::vector<Communicator> comms;
  std::vector<Residual> residuals;

  Ranks residual_values() const {
    Ranks values;
    for (const Residual& residual : residuals) {
      const auto span = residual.values();
      values.emplace_back(span.begin(), span.end());
    }
    return values;
  }

  void reduce(const Pair& pair, Ranks& data, std::uint64_t step) {
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      AllReduceOptions options;
      options.codec = pair.codec;
      options.algorithm = pair.algorithm;
      options.residual = &residuals[static_cast<std::size_t>(rank)];
      options.step = step;
      auto& mine = data[static_cast<std::size_t>(rank)];
      const Status status = comm.all_reduce({mine.data(), mine.size()}, ReduceOp::sum, options);
      EXPECT_TRUE(status.ok()) << status.text();
    });
  }
};

double sum_at(const Ranks& ranks, std::size_t i) {
  double sum = 0.0;
  for (const auto& values : ranks) sum += values[i];
  return sum;
}

class Ledger : public ::testing::TestWithParam<Pair> {};

TEST_P(Ledger, HoldsAtEveryStepAndOverAHundred) {
  for (const int size : {2, 3, 4, 8}) {
    SCOPED_TRACE("world " + std::to_string(size));
    World world(size);
    std::vector<double> all_inputs(kCount, 0.0);
    std::vector<double> all_outputs(kCount, 0.0);
    const unsigned steps = size == 3 ? 100 : 10;
    for (unsigned step = 0; step < steps; ++step) {
      const Ranks inputs = random_ranks(size, kCount, step);
      const Ranks before = world.residual_values();
      Ranks outputs = inputs;
      world.reduce(GetParam(), outputs, step);
      const Ranks after = world.residual_values();
      for (std::size_t i = 0; i < kCount; ++i) {
        const double in = sum_at(inputs, i) + sum_at(before, i);
        const double out = outputs[0][i] + sum_at(after, i);
        const double scale = 1.0 + std::fabs(in) + size;
        ASSERT_NEAR(in, out, 1e-5 * scale) << "element " << i << " step " << step;
        all_inputs[i] += sum_at(inputs, i);
        all_outputs[i] += outputs[0][i];
        if (step == 0 || step == 9 || step == 99) {
          ASSERT_NEAR(all_inputs[i], all_outputs[i] + sum_at(after, i), 1e-5 * (scale + 4.0 * (step + 1.0)));
        }
      }
      expect_identical(outputs);
    }
  }
}

TEST_P(Ledger, NonFiniteValuesReachAllRanksAndNoResidual) {
  World world(3);
  Ranks warm = random_ranks(3, kCount, 77);
  world.reduce(GetParam(), warm, 0);
  const Ranks before = world.residual_values();
  Ranks data = random_ranks(3, kCount, 78);
  data[1][0] = std::numeric_limits<float>::quiet_NaN();
  data[2][1500] = std::numeric_limits<float>::infinity();
  data[0][kCount - 1] = -std::numeric_limits<float>::infinity();
  const Ranks inputs = data;
  world.reduce(GetParam(), data, 1);
  expect_identical(data);
  const Ranks after = world.residual_values();
  std::size_t finite = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    for (std::size_t rank = 0; rank < 3; ++rank) {
      ASSERT_TRUE(std::isfinite(after[rank][i])) << "rank " << rank << " element " << i;
      if (!std::isfinite(data[0][i])) {
        ASSERT_EQ(after[rank][i], before[rank][i]);
      }
    }
    if (!std::isfinite(data[0][i])) continue;
    ++finite;
    ASSERT_NEAR(sum_at(inputs, i) + sum_at(before, i), data[0][i] + sum_at(after, i), 1e-4);
  }
  for (const std::size_t i : {std::size_t{0}, std::size_t{1500}, kCount - 1})
    ASSERT_FALSE(std::isfinite(data[0][i]));
  EXPECT_GT(finite, kCount / 2) << "blocks without a bad value must not be touched";
}

INSTANTIATE_TEST_SUITE_P(Everything, Ledger, ::testing::ValuesIn(all_pairs(lossy_codecs())), pair_name);

TEST(Residuals, AreLeftAloneByExactCollectives) {
  World world(2);
  for (const Residual& residual : world.residuals) residual.values()[5] = 2.5F;
  Ranks data = random_ranks(2, kCount, 3);
  const double exact = sum_at(data, 5);
  world.reduce({"direct", "none"}, data, 0);
  EXPECT_NEAR(data[0][5], exact, 1e-6);
  EXPECT_EQ(world.residuals[0].values()[5], 2.5F);
}

}  // namespace
}  // namespace ferrule::testing
