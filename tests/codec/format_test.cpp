// The layout and the arithmetic of block integers, against the words of docs/wire_format.md.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "codec/format/block_int.hpp"
#include "codec/format/cast.hpp"
#include "codec/format/scaled_block.hpp"
#include "codec/vectors.hpp"

namespace ferrule::codec::format {
namespace {

using testing::random_bits;

unsigned bit_at(const std::vector<std::byte>& bytes, std::size_t bit) {
  return (static_cast<unsigned>(bytes[bit / 8]) >> (bit % 8)) & 1u;
}

// Bit `bit` of the code of element i, by the rule: plane by plane, word i % L, bit p * (i / L).
std::size_t wire_bit(std::size_t i, unsigned bit, std::size_t block, unsigned width) {
  std::size_t before = 0;
  unsigned low = 0;
  for (const unsigned p : {8u, 4u, 2u, 1u}) {
    if ((width & p) == 0) continue;
    if (bit < low + p) {
      const std::size_t words = block * p / 32;
      return before + 32 * (i % words) + p * (i / words) + (bit - low);
    }
    low += p;
    before += block * p;
  }
  return before;
}

std::vector<std::uint8_t> random_codes(std::size_t count, unsigned width) {
  std::vector<std::uint8_t> codes(count);
  for (std::size_t i = 0; i < count; ++i) {
    codes[i] = static_cast<std::uint8_t>(random_bits(width, i) & ((1u << width) - 1));
  }
  return codes;
}

TEST(Planes, FullBlocksFollowTheRule) {
  for (unsigned width = 2; width <= 8; ++width) {
    for (std::size_t block = 32; block <= 1024; block += 32) {
      const std::vector<std::uint8_t> codes = random_codes(block, width);
      std::vector<std::byte> bytes(packed_bytes(block, width));
      ASSERT_EQ(bytes.size(), block * width / 8);
      pack_codes(codes.data(), block, block, width, bytes.data());
      for (std::size_t i = 0; i < block; ++i) {
        for (unsigned bit = 0; bit < width; ++bit) {
          ASSERT_EQ(bit_at(bytes, wire_bit(i, bit, block, width)), (codes[i] >> bit) & 1u)
              << "width " << width << ", block " << block << ", element " << i << ", bit " << bit;
        }
      }
      std::vector<std::uint8_t> back(block, 0xee);
      unpack_codes(bytes.data(), block, block, width, back.data());
      ASSERT_EQ(back, codes);
    }
  }
}

TEST(Planes, PartialBlocksAreABitString) {
  for (unsigned width = 2; width <= 8; ++width) {
    for (std::size_t count = 1; count < 128; ++count) {
      const std::vector<std::uint8_t> codes = random_codes(count, width);
      std::vector<std::byte> bytes(packed_bytes(count, width), std::byte{0xff});
      ASSERT_EQ(bytes.size(), (count * width + 7) / 8);
      pack_codes(codes.data(), count, 128, width, bytes.data());
      for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
        const std::size_t i = bit / width;
        const unsigned expected = i < count ? (codes[i] >> (bit % width)) & 1u : 0u;
        ASSERT_EQ(bit_at(bytes, bit), expected);
      }
      std::vector<std::uint8_t> back(count, 0xee);
      unpack_codes(bytes.data(), count, 128, width, back.data());
      ASSERT_EQ(back, codes);
    }
  }
}

template <class Width>
class BlockInts : public ::testing::Test {};
using Widths = ::testing::Types<BlockInt<2>, BlockInt<3>, BlockInt<4>, BlockInt<5>, BlockInt<6>, BlockInt<7>,
                                BlockInt<8>>;
TYPED_TEST_SUITE(BlockInts, Widths);

TYPED_TEST(BlockInts, LargestScaleTimesLargestCodeIsFiniteAndTheNextIsNot) {
  const float largest = bf16_to_f32(TypeParam::largest_scale());
  EXPECT_TRUE(is_finite(largest * static_cast<float>(TypeParam::kMax)));
  const float next = bf16_to_f32(static_cast<std::uint16_t>(TypeParam::largest_scale() + 1));
  EXPECT_FALSE(is_finite(next * static_cast<float>(TypeParam::kMax)));
}

// Random bits; every fourth at the very top or bottom of the range.
std::uint32_t sample_magnitude(std::uint64_t i) {
  if (i % 8 == 0) return kInfinityBits - 1 - static_cast<std::uint32_t>(i * 101);
  if (i % 8 == 4) return 1 + static_cast<std::uint32_t>(i * 101);
  return static_cast<std::uint32_t>(random_bits(3, i)) & kMagnitudeMask;
}

TYPED_TEST(BlockInts, EveryMagnitudeIsWithinHalfAStep) {
  for (std::uint64_t i = 0; i < 20000; ++i) {
    const std::uint32_t amax_bits = sample_magnitude(i);
    const float amax = float_of(amax_bits);
    if (!is_finite(amax)) continue;
    const auto scale = TypeParam::scale_for(amax_bits);
    const float step = bf16_to_f32(scale.wire);
    ASSERT_TRUE(is_finite(scale.inverse));
    for (const float x : {amax, -amax, amax * 0.37f, amax * -0.5f, amax * 0.01f}) {
      const float back = TypeParam::decode(TypeParam::encode(x, scale, 0.0f), step);
      ASSERT_LE(std::fabs(double{x} - back), 0.50001 * step) << x << " of " << amax;
    }
  }
}

TYPED_TEST(BlockInts, EveryCodeDecodes) {
  for (std::uint32_t code = 0; code < (1u << TypeParam::kBits); ++code) {
    const float q = TypeParam::decode(code, 1.0f);
    const auto expected = static_cast<int>(code) -
                          (code > static_cast<std::uint32_t>(TypeParam::kMax) ? 1 << TypeParam::kBits : 0);
    ASSERT_EQ(q, static_cast<float>(expected));
  }
}

TEST(BlockInt, TiesGoToEven) {
  const auto scale = BlockInt<4>::scale_for(bits_of(7.0f));
  ASSERT_EQ(bf16_to_f32(scale.wire), 1.0f);
  const auto round = [&](float x) { return BlockInt<4>::decode(BlockInt<4>::encode(x, scale, 0.0f), 1.0f); };
  EXPECT_EQ(round(0.5f), 0.0f);
  EXPECT_EQ(round(1.5f), 2.0f);
  EXPECT_EQ(round(2.5f), 2.0f);
  EXPECT_EQ(round(-0.5f), 0.0f);
  EXPECT_EQ(round(-1.5f), -2.0f);
}

TEST(Fp16Cast, HalvesAreLossless) {
  // Any set of fp16 values survives, whatever the largest is: the scale is never above 1 for them.
  for (const float amax : {65504.0f, 1.0f, 6.1e-5f, 6e-8f}) {
    const auto scale = Fp16Cast::scale_for(bits_of(amax));
    for (std::uint32_t half = 0; half < kF16Infinity; ++half) {
      const float x = f16_to_f32(static_cast<std::uint16_t>(half));
      if (x > amax) break;
      ASSERT_EQ(Fp16Cast::decode(Fp16Cast::encode(x, scale, 0.0f), bf16_to_f32(scale.wire)), x);
    }
  }
}

TEST(Fp16Cast, NoFiniteValueOverflowsOrVanishes) {
  for (std::uint64_t i = 0; i < 100000; ++i) {
    const std::uint32_t bits = static_cast<std::uint32_t>(random_bits(5, i)) & kMagnitudeMask;
    const float x = i == 0 ? std::numeric_limits<float>::max() : float_of(bits);
    if (!is_finite(x)) continue;
    const auto scale = Fp16Cast::scale_for(bits_of(x));
    const float back = Fp16Cast::decode(Fp16Cast::encode(x, scale, 0.0f), bf16_to_f32(scale.wire));
    ASSERT_TRUE(is_finite(back));
    ASSERT_LE(std::fabs(double{x} - back), double{x} * 0x1p-11) << x;
  }
}

TEST(Noise, IsAFunctionOfKeyAndElementAndIsCentred) {
  const NoiseStream stream = NoiseStream::at(42, 0);
  double sum = 0;
  constexpr std::uint64_t kDraws = 1 << 20;
  for (std::uint64_t e = 0; e < kDraws; ++e) {
    const float u = stream.dither(e);
    ASSERT_LT(std::fabs(u), 0.5f);
    sum += u;
  }
  // Standard deviation of a uniform: 1 / sqrt(12).
  const double z = sum / std::sqrt(static_cast<double>(kDraws) / 12);
  EXPECT_LT(std::fabs(z), 4.5);
  EXPECT_EQ(stream.dither(77), NoiseStream::at(42, 64).dither(77));
  EXPECT_NE(stream.k0, NoiseStream::at(42, std::uint64_t{1} << 33).k0);
}

TEST(Noise, NeighboursAndKeysAreUncorrelated) {
  constexpr std::uint64_t kDraws = 1 << 18;
  const NoiseStream stream = NoiseStream::at(1, 0);
  const auto correlation = [&](const NoiseStream& other, std::uint64_t lag) {
    double sum = 0;
    for (std::uint64_t e = 0; e < kDraws; ++e) sum += double{stream.dither(e)} * other.dither(e + lag);
    return std::fabs(sum * 12 / std::sqrt(static_cast<double>(kDraws)));  // a z value
  };
  for (const std::uint64_t lag : {1u, 2u, 15u, 16u, 17u, 31u, 32u, 64u, 128u, 256u, 512u, 1024u}) {
    EXPECT_LT(correlation(stream, lag), 4.5) << "lag " << lag;
  }
  for (const std::uint64_t key : {0u, 2u, 3u, 257u, 65537u}) {
    EXPECT_LT(correlation(NoiseStream::at(key, 0), 0), 4.5) << "key " << key;
  }
}

}  // namespace
}  // namespace ferrule::codec::format
