#include "bench/ferrule_bench/data.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

#include "bench/ferrule_bench/elements.hpp"

namespace ferrule::bench {
namespace {

constexpr int kTableBits = 16;
constexpr std::size_t kTableSize = std::size_t{1} << kTableBits;

/// Standard normal quantiles at (i + 1/2) / kTableSize. A table, because checking needs the data of all ranks
/// and a logarithm an element would dominate it.
std::vector<double> make_quantiles() {
  std::vector<double> table(kTableSize);
  double z = 0;
  for (std::size_t i = kTableSize / 2; i < kTableSize; ++i) {
    const double p = (static_cast<double>(i) + 0.5) / static_cast<double>(kTableSize);
    // Newton from the quantile before: the distribution function is concave here, so it never overshoots.
    for (int step = 0; step < 8; ++step) {
      const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
      z += (p - 0.5 * std::erfc(-z / std::numbers::sqrt2)) / density;
    }
    table[i] = z;
    table[kTableSize - 1 - i] = -z;
  }
  return table;
}

/// splitmix64: a counter in, 64 well mixed bits out.
std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// The top bits choose a quantile, the rest a point on the way to the next one.
double normal(std::uint64_t bits) {
  static const std::vector<double> table = make_quantiles();
  const std::size_t index = bits >> (64 - kTableBits);
  const double low = table[index];
  const double high = table[std::min(index + 1, kTableSize - 1)];
  const double fraction = static_cast<double>((bits >> 16) & 0xffffffff) * 0x1p-32;
  return low + fraction * (high - low);
}

/// 1/2, 1 or 2 with either sign; larger groups get only +-1, or the product would leave the range of f16.
/// Unsigned and integer types cannot hold 1/2 and get 1 in its place.
double factor(const DataSpec& spec, std::uint64_t bits) {
  const bool whole = unit_roundoff(spec.dtype) == 0;
  double magnitude = 1;
  // u8 overflows at 2^8, and whether an overflow wraps is no business of a benchmark.
  if (spec.ranks <= 7) magnitude = std::ldexp(1.0, static_cast<int>(bits % 3) - 1);
  if (whole) magnitude = std::max(magnitude, 1.0);
  return spec.dtype != DType::u8 && (bits >> 63) != 0 ? -magnitude : magnitude;
}

/// -7 ... 7; unsigned: 0 ... 7, or less where that many ranks would overflow a byte.
double whole_number(const DataSpec& spec, std::uint64_t bits) {
  if (spec.dtype != DType::u8) return static_cast<double>(bits % 15) - 7;
  const auto largest = static_cast<std::uint64_t>(std::clamp(255 / std::max(spec.ranks, 1), 1, 7));
  return static_cast<double>(bits % (largest + 1));
}

}  // namespace

void generate(const DataSpec& spec, int rank, std::uint64_t first, std::span<double> out) {
  const std::uint64_t key = mix(mix(spec.seed) + static_cast<std::uint64_t>(rank));
  const bool whole = spec.kind == DataKind::integer || unit_roundoff(spec.dtype) == 0;
  const auto each = [&](auto&& value_of) {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = value_of(mix(key + first + i));
  };
  if (spec.op == ReduceOp::prod) return each([&](std::uint64_t bits) { return factor(spec, bits); });
  if (whole) return each([&](std::uint64_t bits) { return whole_number(spec, bits); });
  if (spec.dtype == DType::f32)
    return each([](std::uint64_t bits) { return static_cast<float>(normal(bits)); });
  each([&](std::uint64_t bits) { return rounded_to(spec.dtype, normal(bits)); });
}

}  // namespace ferrule::bench
