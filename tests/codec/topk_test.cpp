// Block top-k: what is kept, where it stands on the wire, and what becomes of the rest; against a sort and
// the words of docs/wire_format.md.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "codec/format/block_topk.hpp"
#include "codec/harness.hpp"

namespace ferrule::codec::testing {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The order of the codec: larger magnitude bits first (NaN > Inf > finite), then the lower position.
std::vector<std::uint16_t> largest_by_sort(const std::vector<float>& x, std::size_t kept) {
  std::vector<std::uint16_t> order(x.size());
  std::iota(order.begin(), order.end(), std::uint16_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::uint16_t a, std::uint16_t b) {
    return format::magnitude_bits(x[a]) > format::magnitude_bits(x[b]);
  });
  order.resize(kept);
  std::sort(order.begin(), order.end());
  return order;
}

std::vector<std::uint16_t> chosen(const std::vector<float>& x, std::size_t kept) {
  std::vector<std::uint16_t> positions(kept);
  const format::TopKChoice choice = format::choose_largest(x.data(), x.size(), kept);
  format::list_positions(x.data(), x.size(), choice, positions.data());
  return positions;
}

TEST(TopK, KeepsWhatASortPutsFirst) {
  for (const Values values : kAllValues) {
    for (const std::size_t count : {1U, 7U, 255U, 256U, 1000U, 4096U}) {
      const std::vector<float> x = make_values(values, count, 3);
      for (const std::size_t kept : {std::size_t{1}, (count + 63) / 64, (count + 1) / 2, count}) {
        EXPECT_EQ(chosen(x, kept), largest_by_sort(x, kept)) << values_name(values) << ' ' << count;
      }
    }
  }
}

TEST(TopK, TiesGoToTheLowerPosition) {
  std::vector<float> x(256);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = i % 2 == 0 ? 1.0F : -1.0F;
  x[200] = 2.0F;
  EXPECT_EQ(chosen(x, 4), (std::vector<std::uint16_t>{0, 1, 2, 200}));
  // Few different values: ties at every threshold.
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(random_bits(9, i) % 5) - 2.0F;
  for (std::size_t kept = 1; kept <= x.size(); ++kept) ASSERT_EQ(chosen(x, kept), largest_by_sort(x, kept));
}

TEST(TopK, NanBeforeInfinityBeforeNumbers) {
  std::vector<float> x(256, 3.0e38F);
  x[10] = -kInfinity;
  x[20] = std::numeric_limits<float>::quiet_NaN();
  x[30] = kInfinity;
  EXPECT_EQ(chosen(x, 1), (std::vector<std::uint16_t>{20}));
  EXPECT_EQ(chosen(x, 2), (std::vector<std::uint16_t>{10, 20}));
  EXPECT_EQ(chosen(x, 4), (std::vector<std::uint16_t>{0, 10, 20, 30}));
}

TEST(TopK, PositionsTakeTheSmallerOfTwoForms) {
  const auto layout = format::TopKLayout::of(1024, 1024, 16);
  EXPECT_EQ(layout.index_bits, 10U);
  EXPECT_FALSE(layout.bitmap);
  EXPECT_EQ(layout.position_bytes, 20U);
  EXPECT_FALSE(format::TopKLayout::of(1024, 1024, 102).bitmap);
  EXPECT_TRUE(format::TopKLayout::of(1024, 1024, 103).bitmap);
  EXPECT_EQ(format::TopKLayout::of(1024, 1024, 103).position_bytes, 128U);
  EXPECT_FALSE(format::TopKLayout::of(256, 256, 32).bitmap) << "of two equal ones the numbers";
  EXPECT_TRUE(format::TopKLayout::of(256, 256, 33).bitmap);
}

TEST(TopK, TheLastBlockKeepsTheSameShareRoundedUp) {
  for (const auto& [count, kept] : {std::pair{1U, 1U}, {64U, 1U}, {65U, 2U}, {1023U, 16U}, {1024U, 16U}}) {
    EXPECT_EQ(format::TopKLayout::of(count, 1024, 16).kept, kept) << count;
  }
  EXPECT_EQ(format::TopKLayout::of(1, 1024, 16).position_bytes, 0U);
  EXPECT_EQ(format::TopKLayout::of(65, 1024, 16).index_bits, 7U);
}

TEST(TopK, NeverMoreThanTheRawBytesOfAnyFloat) {
  for (const char* spec : {"topk", "topk:k=128,block=256", "topk:k=2048,block=4096", "topk:k=1,block=4096"}) {
    const auto codec = make_or_fail(spec);
    for (std::size_t n = 0; n < 2 * codec->block() + 2; ++n) {
      ASSERT_LE(codec->encoded_bytes(n, DType::bf16), 2 * n) << spec;
    }
  }
  // The scale of a block may be more than a single 16-bit element, as for the integer codecs.
  const auto int8 = make_or_fail("topk:k=512,value=int8");
  for (std::size_t n = 5; n < 2050; ++n) ASSERT_LE(int8->encoded_bytes(n, DType::bf16), 2 * n);
}

// The example of docs/wire_format.md.
TEST(TopK, WorkedExample) {
  std::vector<float> x(256, 0.25F);
  x[3] = 1.5F;
  x[255] = -2.0F;
  x[17] = 1.0F;
  const Case at{DType::f32, x.size()};
  const std::vector<Input> input = {{Term::Kind::plain, to_elements(x, DType::f32)}};
  const auto bytes_of = [&](const char* spec) {
    std::vector<unsigned> bytes;
    for (const std::byte b : run_encode(*make_or_fail(spec), at, input).wire) {
      bytes.push_back(static_cast<unsigned>(b));
    }
    return bytes;
  };
  EXPECT_EQ(bytes_of("topk:k=3,block=256"),
            (std::vector<unsigned>{3, 17, 255, 0xc0, 0x3f, 0x80, 0x3f, 0x00, 0xc0}));
  EXPECT_EQ(bytes_of("topk:k=3,block=256,value=int8"),
            (std::vector<unsigned>{0x82, 0x3c, 3, 17, 255, 95, 63, 0x82}));
}

// Sums are touched only where something was sent: -0 stays -0. A copy has +0 there.
TEST(TopK, WhatWasNotSentLeavesSumsAsTheyAre) {
  const auto codec = make_or_fail("topk:k=1,block=256");
  std::vector<float> x(256, 0.0F);
  x[5] = 1.0F;
  const Case at{DType::f32, x.size()};
  const Input sent{Term::Kind::encoded,
                   run_encode(*codec, at, {{Term::Kind::plain, to_elements(x, DType::f32)}}).wire};
  const Input mine{Term::Kind::plain, to_elements(std::vector<float>(256, -0.0F), DType::f32)};
  const auto copy = to_floats(run_decode(*codec, at, {sent}).elements, DType::f32);
  for (const int in_place_of : {-1, 0}) {
    const Decoded decoded = run_decode(*codec, at, {mine, sent}, {ReduceOp::sum, false, 1, in_place_of});
    const auto sum = to_floats(decoded.elements, DType::f32);
    for (std::size_t i = 0; i < x.size(); ++i) {
      EXPECT_EQ(sum[i], x[i]);
      EXPECT_EQ(copy[i], x[i]);
      EXPECT_EQ(std::signbit(sum[i]), i != 5) << i;
      EXPECT_FALSE(std::signbit(copy[i])) << i;
    }
  }
}

TEST(TopK, FeedbackKeepsWhatWasDroppedBitForBit) {
  const auto codec = make_or_fail("topk:k=4,block=256");
  const Case at{DType::f32, 512, Values::normal};
  const std::vector<float> x = make_values(Values::normal, at.length, 1);
  EncodeOptions options;
  options.keep = Keep::add;
  options.before = make_values(Values::normal, at.length, 2);
  const Encoded encoded = run_encode(*codec, at, {{Term::Kind::plain, to_elements(x, DType::f32)}}, options);
  const auto y =
      to_floats(run_decode(*codec, at, {{Term::Kind::encoded, encoded.wire}}).elements, DType::f32);
  std::size_t sent = 0;
  for (std::size_t i = 0; i < at.length; ++i) {
    const float all = x[i] + options.before[i];
    ASSERT_EQ(encoded.residual[i], all - y[i]) << i;
    sent += y[i] != 0.0F ? 1 : 0;
  }
  EXPECT_EQ(sent, 8U);
}

// With feedback nothing starves: what is small is sent when it has grown.
TEST(TopK, EveryElementIsSentInTheEnd) {
  const auto codec = make_or_fail("topk:k=8,block=256");
  const Case at{DType::f32, 256, Values::normal};
  std::vector<float> x(at.length);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = 1.0F + static_cast<float>(i) / 256;
  EncodeOptions options;
  options.keep = Keep::add;
  options.before.assign(at.length, 0.0F);
  std::vector<double> delivered(at.length, 0.0);
  constexpr int kSteps = 200;
  for (int step = 0; step < kSteps; ++step) {
    const Encoded encoded =
        run_encode(*codec, at, {{Term::Kind::plain, to_elements(x, DType::f32)}}, options);
    const auto y =
        to_floats(run_decode(*codec, at, {{Term::Kind::encoded, encoded.wire}}).elements, DType::f32);
    for (std::size_t i = 0; i < x.size(); ++i) delivered[i] += y[i];
    options.before = encoded.residual;
  }
  // Each comes round every 32 steps on average, the smallest half as often as the largest.
  for (std::size_t i = 0; i < x.size(); ++i) {
    EXPECT_NEAR(delivered[i] / kSteps, x[i], x[i] * 80.0 / kSteps) << i;
  }
}

}  // namespace
}  // namespace ferrule::codec::testing
