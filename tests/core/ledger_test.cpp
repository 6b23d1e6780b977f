// The ledger: nothing is lost, only delayed. Per element and step, the sum over ranks of (input + residual
// before) equals the output plus the sum over ranks of (residual after), for every lossy codec and every
// algorithm. And values that are not finite pass through without ever entering a residual.
#include <limits>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

constexpr std::size_t kCount = 3001;

/// One rank's communicator and residual, and sums over all ranks of what only they know.
struct Member {
  Member(Communicator& communicator, std::string used_algorithm, std::string used_codec)
      : comm(communicator),
        algorithm(std::move(used_algorithm)),
        codec(std::move(used_codec)),
        residual(Residual::create(kCount).value()) {}

  std::vector<float> reduce(const std::vector<float>& input, std::uint64_t step) const {
    std::vector<float> data = input;
    AllReduceOptions options;
    options.codec = codec;
    options.algorithm = algorithm;
    options.residual = &residual;
    options.step = step;
    const Status status = comm.all_reduce({data.data(), data.size()}, ReduceOp::sum, options);
    EXPECT_TRUE(status.ok()) << status.text();
    return data;
  }
  std::vector<float> values() const {
    const auto span = residual.values();
    return {span.begin(), span.end()};
  }
  /// Over all ranks, in fp64.
  std::vector<double> residual_sums() const {
    const auto span = residual.values();
    std::vector<double> sums(span.begin(), span.end());
    EXPECT_TRUE(comm.all_reduce({sums.data(), sums.size()}).ok());
    return sums;
  }

  Communicator& comm;
  std::string algorithm;
  std::string codec;
  Residual residual;
};

double sum_at(const Ranks& ranks, std::size_t i) {
  double sum = 0.0;
  for (const auto& values : ranks) sum += values[i];
  return sum;
}

/// The parameter is the algorithm.
class Ledger : public ::testing::TestWithParam<std::string> {};

void check_ledger(Member& member, int rank, int size, unsigned steps) {
  std::vector<double> all_inputs(kCount, 0.0);
  std::vector<double> all_outputs(kCount, 0.0);
  std::vector<double> before = member.residual_sums();
  for (unsigned step = 0; step < steps; ++step) {
    const Ranks inputs = random_ranks(size, kCount, step);
    const auto output = member.reduce(inputs[static_cast<std::size_t>(rank)], step);
    const std::vector<double> after = member.residual_sums();
    for (std::size_t i = 0; i < kCount; ++i) {
      const double in = sum_at(inputs, i) + before[i];
      const double scale = 1.0 + std::fabs(in) + size;
      ASSERT_NEAR(in, output[i] + after[i], 1e-5 * scale) << "element " << i << " step " << step;
      all_inputs[i] += sum_at(inputs, i);
      all_outputs[i] += output[i];
      if (step == 0 || step == 9 || step == 99) {
        ASSERT_NEAR(all_inputs[i], all_outputs[i] + after[i], 1e-5 * (scale + 4.0 * (step + 1.0)));
      }
    }
    expect_identical(member.comm, output);
    before = after;
  }
}

TEST_P(Ledger, HoldsAtEveryStepAndOverAHundred) {
  for (const int size : {2, 3, 4, 8}) {
    SCOPED_TRACE("world " + std::to_string(size));
    run_world(size, [&](int rank, Communicator& comm) {
      for (const std::string& codec : lossy_codecs()) {
        SCOPED_TRACE(codec);
        Member member(comm, GetParam(), codec);
        check_ledger(member, rank, size, size == 3 ? 100 : 10);
        if (HasFatalFailure()) return;
      }
    });
  }
}

void check_bad_values(Communicator& comm, int rank, const std::string& algorithm, const std::string& codec) {
  const auto r = static_cast<std::size_t>(rank);
  Member member(comm, algorithm, codec);
  static_cast<void>(member.reduce(random_ranks(3, kCount, 77)[r], 0));
  const std::vector<float> before = member.values();
  const std::vector<double> sums_before = member.residual_sums();
  Ranks inputs = random_ranks(3, kCount, 78);
  inputs[1][0] = std::numeric_limits<float>::quiet_NaN();
  inputs[2][1000] = std::numeric_limits<float>::infinity();
  inputs[0][kCount - 1] = -std::numeric_limits<float>::infinity();
  const std::vector<float> output = member.reduce(inputs[r], 1);
  expect_identical(comm, output);
  const std::vector<float> after = member.values();
  const std::vector<double> sums_after = member.residual_sums();
  std::size_t finite = 0;
  for (std::size_t i = 0; i < kCount; ++i) {
    ASSERT_TRUE(std::isfinite(after[i])) << "element " << i;
    if (!std::isfinite(output[i])) {
      ASSERT_EQ(after[i], before[i]);
      continue;
    }
    ++finite;
    ASSERT_NEAR(sum_at(inputs, i) + sums_before[i], output[i] + sums_after[i], 1e-4);
  }
  for (const std::size_t i : {std::size_t{0}, std::size_t{1000}, kCount - 1})
    ASSERT_FALSE(std::isfinite(output[i]));
  EXPECT_GT(finite, kCount / 4) << "blocks without a bad value must not be touched";
}

TEST_P(Ledger, NonFiniteValuesReachAllRanksAndNoResidual) {
  run_world(3, [&](int rank, Communicator& comm) {
    for (const std::string& codec : lossy_codecs()) {
      SCOPED_TRACE(codec);
      check_bad_values(comm, rank, GetParam(), codec);
      if (HasFatalFailure()) return;
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Everything, Ledger, ::testing::ValuesIn(all_algorithms()), word_name);

TEST(Residuals, AreLeftAloneByExactCollectives) {
  run_world(2, [](int rank, Communicator& comm) {
    Member member(comm, "direct", "none");
    member.residual.values()[5] = 2.5F;
    const Ranks inputs = random_ranks(2, kCount, 3);
    const auto output = member.reduce(inputs[static_cast<std::size_t>(rank)], 0);
    EXPECT_NEAR(output[5], sum_at(inputs, 5), 1e-6);
    EXPECT_EQ(member.residual.values()[5], 2.5F);
  });
}

TEST(Residuals, AreLeftAloneInAWorldOfOne) {
  run_world(1, [](int, Communicator& comm) {
    Member member(comm, "direct", "int4");
    member.residual.values()[5] = 2.5F;
    const auto input = random_values(kCount, 4);
    EXPECT_EQ(member.reduce(input, 0), input);
    EXPECT_EQ(member.residual.values()[5], 2.5F);
  });
}

// The spare buffer goes from one residual to the next; its size must not, nor its values.
TEST(Residuals, OfDifferentSizesShareOneSpare) {
  run_world(2, [](int rank, Communicator& comm) {
    std::vector<Residual> residuals;
    for (const std::size_t count : {100000UL, 500UL, 700UL})
      residuals.push_back(Residual::create(count).value());
    for (int step = 0; step < 4; ++step) {
      for (const Residual& residual : residuals) {
        auto data = random_values(residual.values().size(), static_cast<unsigned>(10 * step + rank));
        const auto input = data;
        const std::vector<float> before(residual.values().begin(), residual.values().end());
        AllReduceOptions options;
        options.codec = "int4";
        options.algorithm = "direct";
        options.residual = &residual;
        ASSERT_TRUE(comm.all_reduce({data.data(), data.size()}, ReduceOp::sum, options).ok());
        std::vector<double> books(data.size());
        for (std::size_t i = 0; i < data.size(); ++i)
          books[i] = double{input[i]} + before[i] - residual.values()[i];
        ASSERT_TRUE(comm.all_reduce({books.data(), books.size()}).ok());
        for (std::size_t i = 0; i < data.size(); ++i) ASSERT_NEAR(books[i], data[i], 1e-4);
      }
    }
  });
}

}  // namespace
}  // namespace ferrule::testing
