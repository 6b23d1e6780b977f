// The 16-bit conversions, exhaustively against an independent definition: the nearest of all 65536 values, in
// fp64, ties to the even pattern.
#include "codec/format/float16.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "codec/vectors.hpp"

namespace ferrule::codec::format {
namespace {

// A binary float by its definition: `exponent_bits` of exponent and `mantissa_bits` of fraction.
double by_definition(std::uint32_t bits, int exponent_bits, int mantissa_bits) {
  const std::uint32_t exponent = (bits >> mantissa_bits) & ((1u << exponent_bits) - 1);
  const std::uint32_t fraction = bits & ((1u << mantissa_bits) - 1);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
  if (exponent == (1u << exponent_bits) - 1) return fraction != 0 ? NAN : sign * INFINITY;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias - mantissa_bits);
  return sign *
         std::ldexp((1u << mantissa_bits) + fraction, static_cast<int>(exponent) - bias - mantissa_bits);
}

struct Format16 {
  const char* name;
  int exponent_bits;
  int mantissa_bits;
  float (*widen)(std::uint16_t);
  std::uint16_t (*narrow)(float);
  std::uint16_t (*narrow_saturating)(float);
};
constexpr Format16 kFormats[] = {{"f16", 5, 10, f16_to_f32, f32_to_f16, f32_to_f16_saturating},
                                 {"bf16", 8, 7, bf16_to_f32, f32_to_bf16, f32_to_bf16_saturating}};

// Magnitudes of the format in order; the pattern of infinity stands for the value where rounding overflows.
std::uint16_t nearest_by_search(double magnitude, const Format16& format) {
  const auto infinity =
      static_cast<std::uint16_t>(((1u << format.exponent_bits) - 1) << format.mantissa_bits);
  const double top = by_definition(infinity - 1u, format.exponent_bits, format.mantissa_bits);
  const double beyond = 2 * top - by_definition(infinity - 2u, format.exponent_bits, format.mantissa_bits);
  const auto value_of = [&](std::uint32_t bits) {
    return bits == infinity ? beyond : by_definition(bits, format.exponent_bits, format.mantissa_bits);
  };
  std::uint32_t low = 0;
  std::uint32_t high = infinity;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    (value_of(middle) <= magnitude ? low : high) = middle;
  }
  if (magnitude >= beyond) return infinity;
  const double below = magnitude - value_of(low);
  const double above = value_of(high) - magnitude;
  const bool take_low = below < above || (below == above && low % 2 == 0);
  return static_cast<std::uint16_t>(take_low ? low : high);
}

TEST(Float16, WideningEqualsTheDefinition) {
  for (const Format16& format : kFormats) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const double expected = by_definition(bits, format.exponent_bits, format.mantissa_bits);
      const float wide = format.widen(static_cast<std::uint16_t>(bits));
      if (std::isnan(expected)) {
        ASSERT_TRUE(std::isnan(wide)) << format.name << ' ' << bits;
      } else {
        ASSERT_EQ(double{wide}, expected) << format.name << ' ' << bits;
        ASSERT_EQ(std::signbit(wide), (bits & 0x8000u) != 0);
      }
    }
  }
}

TEST(Float16, EveryPatternComesBack) {
  for (const Format16& format : kFormats) {
    for (std::uint32_t bits = 0; bits < 65536; ++bits) {
      const float wide = format.widen(static_cast<std::uint16_t>(bits));
      if (std::isnan(wide)) continue;
      ASSERT_EQ(format.narrow(wide), bits) << format.name;
      ASSERT_EQ(format.narrow_saturating(wide), bits) << format.name;
    }
  }
}

TEST(Float16, NarrowingIsNearestEven) {
  for (const Format16& format : kFormats) {
    const auto check = [&](std::uint32_t bits) {
      const float value = float_of(bits & kMagnitudeMask);
      if (!is_finite(value)) return;
      const std::uint16_t expected = nearest_by_search(value, format);
      ASSERT_EQ(format.narrow(value), expected) << format.name << ' ' << value;
      ASSERT_EQ(format.narrow(-value), expected | 0x8000u) << format.name << ' ' << -value;
    };
    // Around every value and every midpoint, and random bits.
    for (std::uint32_t half = 0; half < 32768; ++half) {
      const std::uint32_t bits = bits_of(format.widen(static_cast<std::uint16_t>(half)));
      const std::uint32_t next = bits_of(format.widen(static_cast<std::uint16_t>(half + 1)));
      const std::uint32_t middle =
          bits_of(static_cast<float>((double{float_of(bits)} + double{float_of(next)}) / 2));
      for (const std::uint32_t around : {bits, middle}) {
        for (const std::uint32_t delta : {0xffffffffu, 0u, 1u}) check(around + delta);
      }
      check(static_cast<std::uint32_t>(testing::random_bits(17, half)));
    }
  }
}

TEST(Float16, FiniteValuesSaturateOnlyWhenAsked) {
  constexpr float kLargest = std::numeric_limits<float>::max();
  EXPECT_EQ(f32_to_bf16(kLargest), kBf16Infinity);
  EXPECT_EQ(f32_to_bf16_saturating(kLargest), kBf16Largest);
  EXPECT_EQ(f32_to_bf16_saturating(-kLargest), kBf16Largest | 0x8000u);
  EXPECT_EQ(f32_to_bf16_saturating(INFINITY), kBf16Infinity);
  EXPECT_EQ(f32_to_f16(65519.0f), kF16Largest);
  EXPECT_EQ(f32_to_f16(65520.0f), kF16Infinity);
  EXPECT_EQ(f32_to_f16_saturating(65520.0f), kF16Largest);
  EXPECT_EQ(f32_to_f16_saturating(-INFINITY), kF16Infinity | 0x8000u);
}

TEST(Float16, EveryNanBecomesTheCanonicalOne) {
  for (const std::uint32_t bits : {0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffc00000u, 0x7fc12345u}) {
    EXPECT_EQ(f32_to_bf16(float_of(bits)), kBf16Nan);
    EXPECT_EQ(f32_to_bf16_saturating(float_of(bits)), kBf16Nan);
    EXPECT_EQ(f32_to_f16(float_of(bits)), kF16Nan);
    EXPECT_EQ(f32_to_f16_saturating(float_of(bits)), kF16Nan);
  }
}

TEST(Float16, RoundingUpNeverFallsBelow) {
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const float value = float_of(static_cast<std::uint32_t>(testing::random_bits(23, i)) & kMagnitudeMask);
    if (!is_finite(value)) continue;
    const std::uint16_t up = f32_to_bf16_up(value);
    ASSERT_GE(bf16_to_f32(up), value);
    if (up != 0) {
      ASSERT_LT(bf16_to_f32(static_cast<std::uint16_t>(up - 1)), value);
    }
  }
}

}  // namespace
}  // namespace ferrule::codec::format
