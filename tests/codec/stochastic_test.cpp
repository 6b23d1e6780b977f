// Stochastic rounding has no bias: over many keys, the mean of what arrives is what was sent. Seeds are
// fixed, so the confidence (|z| < 4.5, chance 7e-6 per value under the hypothesis) is decided once.
#include <gtest/gtest.h>

#include <cmath>

#include "codec/format/float16.hpp"
#include "codec/harness.hpp"

namespace ferrule::codec::testing {
namespace {

class Stochastic : public ::testing::TestWithParam<const char*> {};

TEST_P(Stochastic, MeanOverKeysIsTheValue) {
  const auto codec = make_or_fail(GetParam());
  constexpr std::size_t kLength = 160;  // a full block and a partial one
  constexpr int kDraws = 4000;
  const std::vector<float> x = make_values(Values::normal, kLength, 11);
  const Term term{Term::Kind::plain, x.data()};
  std::vector<std::byte> wire(codec->encoded_bytes(kLength, DType::f32));
  std::vector<float> y(kLength);
  std::vector<double> sum(kLength);
  for (int draw = 0; draw < kDraws; ++draw) {
    EncodeArgs encode;
    encode.terms = {&term, 1};
    encode.count = kLength;
    encode.noise.key = noise_key(5, static_cast<std::uint64_t>(draw), 0, 0);
    encode.out = wire.data();
    codec->encode(encode);
    const Term encoded{Term::Kind::encoded, wire.data()};
    DecodeArgs decode;
    decode.terms = {&encoded, 1};
    decode.count = kLength;
    decode.out = y.data();
    ASSERT_TRUE(codec->decode(decode));
    for (std::size_t i = 0; i < kLength; ++i) {
      sum[i] += double{y[i]} - x[i];
    }
  }
  double total = 0;
  double variance = 0;
  for (std::size_t i = 0; i < kLength; ++i) {
    // Rounding up is a coin of known probability: the fraction of value / step.
    const double step = format::bf16_to_f32(format::load_u16(wire.data() + 2 * (i / codec->block())));
    const double ratio = x[i] / step;
    const double up = ratio - std::floor(ratio);
    const double expected = kDraws * up * (1 - up) * step * step;
    // Three steps: with an expectation of well under one event, the normal approximation fails.
    EXPECT_LT(std::fabs(sum[i]), 4.5 * std::sqrt(expected) + 3 * step) << "element " << i << " = " << x[i];
    total += sum[i];
    variance += expected;
  }
  EXPECT_LT(std::fabs(total), 4.5 * std::sqrt(variance)) << "all elements together";
}

INSTANTIATE_TEST_SUITE_P(Widths, Stochastic,
                         ::testing::Values("int2:round=stochastic", "int3:round=stochastic",
                                           "int4:round=stochastic", "int4:block=32,round=stochastic",
                                           "int8:round=stochastic"));

TEST(Stochastic, KeysGiveDifferentBytesAndNearestIgnoresThem) {
  const Case at{DType::f32, 1000, Values::normal};
  const std::vector<Input> input = {
      {Term::Kind::plain, to_elements(make_values(Values::normal, 1000, 1), at.dtype)}};
  EncodeOptions one;
  EncodeOptions two;
  one.noise.key = 1;
  two.noise.key = 2;
  const auto stochastic = make_or_fail("int4:round=stochastic");
  const auto nearest = make_or_fail("int4");
  EXPECT_NE(run_encode(*stochastic, at, input, one).wire, run_encode(*stochastic, at, input, two).wire);
  EXPECT_EQ(run_encode(*nearest, at, input, one).wire, run_encode(*nearest, at, input, two).wire);
}

}  // namespace
}  // namespace ferrule::codec::testing
