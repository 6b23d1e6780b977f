#include "bench/ferrule_bench/oracle.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "bench/ferrule_bench/elements.hpp"

namespace ferrule::bench {
namespace {

std::vector<double> values_of(const DataSpec& spec, int rank, std::uint64_t first, std::size_t count) {
  std::vector<double> values(count);
  generate(spec, rank, first, values);
  return values;
}

TEST(Data, IsStandardNormal) {
  const auto values = values_of({.ranks = 2}, 0, 0, 200'000);
  double sum = 0, squares = 0;
  std::size_t beyond_two = 0;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    beyond_two += std::fabs(value) > 2 ? 1 : 0;
  }
  const auto n = static_cast<double>(values.size());
  EXPECT_NEAR(sum / n, 0, 5 / std::sqrt(n));
  EXPECT_NEAR(squares / n, 1, 5 * std::sqrt(2 / n));
  EXPECT_NEAR(static_cast<double>(beyond_two) / n, 0.0455, 0.003);
}

TEST(Data, DependsOnRankAndSeedAndNotOnThePiece) {
  const DataSpec spec{.ranks = 2};
  const auto whole = values_of(spec, 1, 0, 100);
  const auto tail = values_of(spec, 1, 60, 40);
  EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.begin() + 60));
  EXPECT_NE(values_of(spec, 0, 0, 100), whole);
  DataSpec other = spec;
  other.seed = 2;
  EXPECT_NE(values_of(other, 1, 0, 100), whole);
}

TEST(Data, IsRepresentable) {
  for (int d = 0; d < kDTypeCount; ++d) {
    for (int o = 0; o < kReduceOpCount; ++o) {
      for (const DataKind kind : {DataKind::normal, DataKind::integer}) {
        const DataSpec spec{static_cast<DType>(d), static_cast<ReduceOp>(o), kind, 3, 7};
        for (const double value : values_of(spec, 2, 0, 500)) {
          ASSERT_EQ(rounded_to(spec.dtype, value), value)
              << dtype_name(spec.dtype) << ' ' << op_name(spec.op);
        }
      }
    }
  }
}

TEST(Data, BytesDoNotOverflow) {
  for (const int ranks : {1, 2, 8, 64, 255}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::prod}) {
      const DataSpec spec{DType::u8, op, DataKind::normal, 1, ranks};
      for (const double value : expected_piece(spec, 1, 0, 300).values) {
        ASSERT_GE(value, 0);
        ASSERT_LE(value, 255);
      }
    }
  }
}

TEST(Oracle, CombinesAllRanks) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max, ReduceOp::prod}) {
    const DataSpec spec{.op = op, .ranks = 3};
    const Expected expected = expected_piece(spec, 4, 8, 16);
    for (std::size_t i = 0; i < 16; ++i) {
      double x[3];
      for (int rank = 0; rank < 3; ++rank) x[rank] = values_of(spec, rank, 8 + i, 1)[0];
      const double sum = x[0] + x[1] + x[2];
      const double right = op == ReduceOp::sum   ? sum
                           : op == ReduceOp::avg ? sum / 3
                           : op == ReduceOp::min ? std::min({x[0], x[1], x[2]})
                           : op == ReduceOp::max ? std::max({x[0], x[1], x[2]})
                                                 : x[0] * x[1] * x[2];
      EXPECT_DOUBLE_EQ(expected.values[i], right) << op_name(op);
      EXPECT_DOUBLE_EQ(expected.absolute_sums[i], std::fabs(x[0]) + std::fabs(x[1]) + std::fabs(x[2]));
    }
  }
}

TEST(Oracle, IntegerAveragesDropTheFraction) {
  const DataSpec spec{DType::i32, ReduceOp::avg, DataKind::normal, 1, 4};
  std::set<double> seen;
  for (const double value : expected_piece(spec, 1, 0, 200).values) {
    EXPECT_EQ(value, std::trunc(value));
    seen.insert(value);
  }
  EXPECT_GT(seen.size(), 3u);
}

TEST(Oracle, BlockMagnitudesAreTheLargestOfEachBlock) {
  const DataSpec spec{.ranks = 2};
  const Expected expected = expected_piece(spec, 4, 0, 10);
  double right = 0;
  for (int rank = 0; rank < 2; ++rank) {
    const auto values = values_of(spec, rank, 8, 2);  // the last, short block
    right += std::max(std::fabs(values[0]), std::fabs(values[1]));
  }
  EXPECT_DOUBLE_EQ(expected.block_magnitudes[8], right);
  EXPECT_DOUBLE_EQ(expected.block_magnitudes[9], right);
}

TEST(Oracle, RoundingIsAllowedForFloatSumsOnly) {
  const auto allowed = [](const DataSpec& spec) {
    return rounding_bounds(spec, expected_piece(spec, 1, 0, 1)).front();
  };
  EXPECT_GT(allowed({.ranks = 4}), 0);
  EXPECT_LT(allowed({.ranks = 4}), 1e-5);
  EXPECT_EQ(allowed({.op = ReduceOp::max, .ranks = 4}), 0);
  EXPECT_EQ(allowed({.dtype = DType::i32, .ranks = 4}), 0);
  EXPECT_EQ(allowed({.kind = DataKind::integer, .ranks = 4}), 0);
}

TEST(ErrorTally, CountsWhatIsOutOfBounds) {
  const Expected expected{0, {1, 2, 3, 4}, {}, {}};
  const std::vector<double> result{1, 2.5, 3, std::nan("")};
  const std::vector<double> bounds{0, 0.4, 0, 1e9};
  ErrorTally tally;
  tally.add(result, expected, bounds);
  EXPECT_EQ(tally.wrong, 2u);
  EXPECT_TRUE(std::isnan(tally.relative_error()));
  EXPECT_TRUE(std::isnan(tally.max_error));
}

TEST(ErrorTally, RelativeErrorIsL2) {
  const Expected expected{0, {3, 4}, {}, {}};
  const std::vector<double> bounds{1, 1};
  ErrorTally first, second;
  first.add(std::vector<double>{3, 4}, expected, bounds);
  EXPECT_EQ(first.relative_error(), 0);
  second.add(std::vector<double>{3.3, 4.4}, expected, bounds);
  EXPECT_NEAR(second.relative_error(), 0.1, 1e-12);
  first.merge(second);
  EXPECT_NEAR(first.relative_error(), 0.5 / std::sqrt(50.0), 1e-12);
  EXPECT_NEAR(first.max_error, 0.4, 1e-12);
  EXPECT_EQ(first.wrong, 0u);
}

}  // namespace
}  // namespace ferrule::bench
