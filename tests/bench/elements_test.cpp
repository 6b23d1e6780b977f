#include "bench/ferrule_bench/elements.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "bench/ferrule_bench/digest.hpp"

namespace ferrule::bench {
namespace {

double half(std::uint16_t bits) {
  double value = 0;
  load_elements(&bits, DType::f16, {&value, 1});
  return value;
}

std::uint16_t half_bits(double value) {
  std::uint16_t bits = 0;
  store_elements({&value, 1}, DType::f16, &bits);
  return bits;
}

TEST(Elements, KnownHalves) {
  EXPECT_EQ(half(0x3c00), 1.0);
  EXPECT_EQ(half(0xc000), -2.0);
  EXPECT_EQ(half(0x7bff), 65504.0);
  EXPECT_EQ(half(0x0001), 0x1p-24);
  EXPECT_EQ(half(0x0400), 0x1p-14);
  EXPECT_TRUE(std::isinf(half(0x7c00)));
  EXPECT_TRUE(std::isnan(half(0x7e00)));
  EXPECT_EQ(half_bits(65519.0), 0x7bff);
  EXPECT_EQ(half_bits(65520.0), 0x7c00);
  EXPECT_EQ(half_bits(-0.0), 0x8000);
  EXPECT_EQ(half_bits(1.0 + 0x1p-11), 0x3c00) << "a tie goes to even";
  EXPECT_EQ(half_bits(1.0 + 3 * 0x1p-11), 0x3c02) << "a tie goes to even";
  EXPECT_EQ(half_bits(0x1p-25), 0x0000);
}

TEST(Elements, EveryHalfComesBack) {
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto pattern = static_cast<std::uint16_t>(bits);
    if (std::isnan(half(pattern))) continue;
    ASSERT_EQ(half_bits(half(pattern)), pattern);
  }
}

TEST(Elements, KnownBrainFloats) {
  EXPECT_EQ(rounded_to(DType::bf16, 1.0), 1.0);
  EXPECT_EQ(rounded_to(DType::bf16, 1.0 + 0x1p-8), 1.0) << "a tie goes to even";
  EXPECT_EQ(rounded_to(DType::bf16, 1.0 + 3 * 0x1p-8), 1.0 + 0x1p-6) << "a tie goes to even";
  EXPECT_EQ(rounded_to(DType::bf16, -3e38), -0x1.c4p127);
  EXPECT_TRUE(std::isnan(rounded_to(DType::bf16, std::nan(""))));
}

TEST(Elements, EveryTypeComesBackFromAnyAddress) {
  const std::vector<double> values{0, 1, 5, 7, 2};
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    std::vector<std::byte> memory(values.size() * element_bytes(dtype) + 1);
    store_elements(values, dtype, memory.data() + 1);
    std::vector<double> back(values.size());
    load_elements(memory.data() + 1, dtype, back);
    EXPECT_EQ(back, values) << dtype_name(dtype);
  }
}

TEST(Digest, SeesEveryBitAndTheLength) {
  std::vector<std::byte> bytes(37, std::byte{0});
  const std::uint64_t zero = digest(bytes);
  for (std::size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    auto changed = bytes;
    changed[bit / 8] ^= std::byte{1} << (bit % 8);
    EXPECT_NE(digest(changed), zero) << bit;
  }
  bytes.push_back(std::byte{0});
  EXPECT_NE(digest(bytes), zero);
  EXPECT_EQ(digest({}), digest({}));
}

}  // namespace
}  // namespace ferrule::bench
