#include "bench/ferrule_bench/oracle.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/ferrule_bench/elements.hpp"

namespace ferrule::bench {
namespace {

double combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::prod:
      return a * b;
    default:
      return a + b;
  }
}

/// Adds the largest magnitude of each block to all elements of the block.
void add_block_magnitudes(std::span<const double> values, std::size_t block, std::span<double> magnitudes) {
  for (std::size_t begin = 0; begin < values.size(); begin += block) {
    const std::size_t end = std::min(begin + block, values.size());
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
    for (std::size_t i = begin; i < end; ++i) magnitudes[i] += largest;
  }
}

/// The one division of an average; integers drop the fraction.
void divide(const DataSpec& spec, std::span<double> values) {
  const bool whole = unit_roundoff(spec.dtype) == 0;
  for (double& value : values) {
    value /= spec.ranks;
    if (whole) value = std::trunc(value);
  }
}

/// max that keeps a NaN, whichever side it is on.
double larger_or_nan(double a, double b) { return a >= b || std::isnan(a) ? a : b; }

}  // namespace

Expected expected_piece(const DataSpec& spec, std::size_t block, std::uint64_t first, std::size_t count) {
  Expected expected{first, std::vector<double>(count), std::vector<double>(count),
                    std::vector<double>(count)};
  std::vector<double> contribution(count);
  for (int rank = 0; rank < spec.ranks; ++rank) {
    generate(spec, rank, first, contribution);
    for (std::size_t i = 0; i < count; ++i) {
      expected.values[i] =
          rank == 0 ? contribution[i] : combine(spec.op, expected.values[i], contribution[i]);
      expected.absolute_sums[i] += std::fabs(contribution[i]);
    }
    add_block_magnitudes(contribution, block, expected.block_magnitudes);
  }
  if (spec.op == ReduceOp::avg) divide(spec, expected.values);
  return expected;
}

std::vector<double> rounding_bounds(const DataSpec& spec, const Expected& expected) {
  std::vector<double> bounds(expected.values.size(), 0.0);
  const bool sums = spec.op == ReduceOp::sum || spec.op == ReduceOp::avg;
  const bool exact_sum = spec.kind == DataKind::integer && spec.op == ReduceOp::sum;
  if (!sums || exact_sum) return bounds;
  const double scale = spec.op == ReduceOp::avg ? 1.0 / spec.ranks : 1.0;
  for (std::size_t i = 0; i < bounds.size(); ++i) {
    // n - 1 additions and at most one more rounding (the division), each off by one unit of the sum of
    // magnitudes.
    bounds[i] = unit_roundoff(spec.dtype) * spec.ranks * expected.absolute_sums[i] * scale;
  }
  return bounds;
}

void ErrorTally::add(std::span<const double> result, const Expected& expected,
                     std::span<const double> bounds) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    const double error = std::fabs(result[i] - expected.values[i]);
    if (!(error <= bounds[i])) ++wrong;
    error_squares += error * error;
    value_squares += expected.values[i] * expected.values[i];
    max_error = larger_or_nan(max_error, error);
  }
}

void ErrorTally::merge(const ErrorTally& other) {
  wrong += other.wrong;
  error_squares += other.error_squares;
  value_squares += other.value_squares;
  max_error = larger_or_nan(max_error, other.max_error);
}

double ErrorTally::relative_error() const {
  if (error_squares == 0) return 0;
  if (value_squares == 0) return std::numeric_limits<double>::infinity();
  return std::sqrt(error_squares / value_squares);
}

}  // namespace ferrule::bench
