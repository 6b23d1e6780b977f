#include "codec/vectors.hpp"

#include <array>
#include <cmath>
#include <limits>

#include "codec/codec.hpp"
#include "codec/format/noise.hpp"

namespace ferrule::codec::testing {
namespace {

// The sum of four uniforms: near enough to a Gaussian, and without a library's logarithm in it.
float bell(std::uint64_t seed, std::uint64_t i) {
  float sum = 0;
  for (std::uint64_t k = 0; k < 4; ++k) sum += random_unit(seed, 4 * i + k);
  return sum;
}

// The range of a dtype, as far as the kinds of values care.
struct Range {
  float smallest_normal;
  float largest;
  float denormal;
  int exponents;  ///< mixed: powers of two from -exponents to exponents
};

Range range_of(DType dtype) {
  if (dtype == DType::f16) return {1e-5f, 65504.0f, 1e-7f, 13};
  // The largest bf16, so that rounding to it does not overflow; near enough to the largest fp32.
  if (dtype == DType::bf16) return {1e-38f, 0x1.fep127f, 1e-40f, 100};
  return {1e-38f, std::numeric_limits<float>::max(), 1e-41f, 100};
}

float scattered(std::uint64_t seed, std::size_t i, int exponents) {
  const auto span = static_cast<std::uint64_t>(2 * exponents + 1);
  return std::ldexp(bell(seed, i), static_cast<int>(random_bits(seed + 1, i) % span) - exponents);
}

float value_at(Values values, std::uint64_t seed, std::size_t i, const Range& range) {
  switch (values) {
    case Values::zeros:
      return 0.0f;
    case Values::negative_zeros:
      return -0.0f;
    case Values::one_hot:
      return i % 97 == 13 ? 3.5f : 0.0f;
    case Values::all_negative:
      return -std::fabs(bell(seed, i)) - 0.01f;
    case Values::constant:
      return 0.7f;
    case Values::tiny:
      return bell(seed, i) * range.smallest_normal;
    case Values::huge:
      return random_unit(seed, i) * range.largest;
    case Values::denormals:
      return bell(seed, i) * range.denormal;
    case Values::mixed:
      return scattered(seed, i, range.exponents);
    default:
      return bell(seed, i);
  }
}

}  // namespace

std::string_view values_name(Values values) {
  constexpr std::array<std::string_view, std::size(kAllValues)> kNames = {
      "normal", "zeros",     "negative_zeros", "one_hot",  "all_negative",  "constant",           "tiny",
      "huge",   "denormals", "mixed",          "with_nan", "with_infinity", "with_minus_infinity"};
  return kNames[static_cast<std::size_t>(values)];
}

bool holds_non_finite(Values values) {
  return values == Values::with_nan || values == Values::with_infinity ||
         values == Values::with_minus_infinity;
}

std::vector<float> make_values(Values values, std::size_t count, std::uint64_t seed, DType dtype) {
  const Range range = range_of(dtype);
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = value_at(values, seed, i, range);
  if (!holds_non_finite(values) || count == 0) return x;
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float bad = values == Values::with_nan ? std::numeric_limits<float>::quiet_NaN()
                                               : (values == Values::with_infinity ? kInfinity : -kInfinity);
  x[count / 3] = bad;
  x[count - 1] = bad;
  return x;
}

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index) {
  return format::splitmix64(format::splitmix64(seed) ^ index);
}

float random_unit(std::uint64_t seed, std::uint64_t index) {
  return static_cast<float>(static_cast<std::int64_t>(random_bits(seed, index) >> 40) - (1 << 23)) * 0x1p-23f;
}

std::vector<std::string> specs_under_test() {
  std::vector<std::string> specs = codec_names();
  for (const char* block : {"32", "64", "96", "256", "1024"}) {
    specs.push_back(std::string("fp16:block=") + block);
  }
  for (const char* name : {"int4", "int8"}) {
    for (const char* block : {"32", "64", "128", "256", "1024"}) {
      specs.push_back(std::string(name) + ":block=" + block);
      specs.push_back(std::string(name) + ":block=" + block + ",round=stochastic");
    }
  }
  for (const char* kept : {"k=1,block=512", "k=8,block=256", "k=64,block=256", "k=64", "k=64,block=4096"}) {
    specs.push_back(std::string("topk:") + kept);
    specs.push_back(std::string("topk:") + kept + ",value=int8");
  }
  for (const char* name : {"int3:block=96", "int2:block=1024,round=stochastic", "int7:block=32"}) {
    specs.emplace_back(name);
  }
  return specs;
}

std::vector<std::size_t> lengths_for(std::size_t block) { return {0, 1, block - 1, block, block + 1, 10007}; }

}  // namespace ferrule::codec::testing
