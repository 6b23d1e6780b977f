// The vector code gives the bits of the scalar code: wire bytes, residuals, elements and the finite flag, for
// every codec, on every target that this machine has.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "codec/format/noise.hpp"
#include "codec/harness.hpp"
#include "codec/simd/target.hpp"

namespace ferrule::codec::testing {
namespace {

using simd::ScopedTarget;
using simd::Target;

std::vector<Target> vector_targets() {
  std::vector<Target> targets = simd::available_targets();
  std::erase(targets, simd::kScalar);
  return targets;
}

std::vector<Entry> transcript_on(Target target, const Codec& codec, const Case& at) {
  const ScopedTarget scope(target);
  return transcript(codec, at);
}

class SimdEqualsScalar : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    codec_ = make_or_fail(GetParam());
    ASSERT_NE(codec_, nullptr);
  }
  const Codec& codec() const { return *codec_; }

  void expect_equal(const Case& at) const {
    const std::vector<Entry> expected = transcript_on(simd::kScalar, codec(), at);
    for (const Target target : vector_targets()) {
      ASSERT_EQ(first_difference(expected, transcript_on(target, codec(), at)), "")
          << simd::target_name(target) << ", " << at.describe();
    }
  }

 private:
  std::unique_ptr<const Codec> codec_;
};

TEST_P(SimdEqualsScalar, OnAllValues) {
  for (const DType dtype : kFloatTypes) {
    for (const Values values : kAllValues) expect_equal({dtype, 5 * codec().block() + 3, values});
  }
}

TEST_P(SimdEqualsScalar, AtAllLengths) {
  for (const DType dtype : kFloatTypes) {
    for (const std::size_t length : lengths_for(codec().block()))
      expect_equal({dtype, length, Values::normal});
  }
}

TEST_P(SimdEqualsScalar, AtAllAlignments) {
  for (std::size_t slack = 0; slack < 16; ++slack) {
    expect_equal({DType::f32, 2 * codec().block() + 7, Values::mixed, slack, slack % 4});
  }
}

// Values that stand exactly between two codes, on either side of zero.
TEST_P(SimdEqualsScalar, OnTies) {
  const std::size_t count = 4 * std::max<std::size_t>(codec().block(), 256);
  std::vector<float> x(count);
  for (std::size_t i = 0; i < count; ++i) x[i] = (static_cast<float>(i % 509) - 254.0F) * 0.5F;
  x[0] = 127.0F;
  const Case at{DType::f32, count, Values::normal};
  const std::vector<Input> terms = {{Term::Kind::plain, to_elements(x, DType::f32)}};
  EncodeOptions options;
  options.keep = Keep::add;
  options.before.assign(count, 0.0F);
  const auto encode_on = [&](Target target) {
    const ScopedTarget scope(target);
    return run_encode(codec(), at, terms, options);
  };
  const Encoded expected = encode_on(simd::kScalar);
  for (const Target target : vector_targets()) {
    const Encoded actual = encode_on(target);
    EXPECT_EQ(actual.wire, expected.wire) << simd::target_name(target);
    EXPECT_EQ(0, std::memcmp(actual.residual.data(), expected.residual.data(), count * sizeof(float)))
        << simd::target_name(target);
  }
}

// A peer's bytes may be anything: scales that are negative, denormal, huge or not finite, and all codes.
TEST_P(SimdEqualsScalar, OnHostileBytes) {
  const std::size_t count = 9 * codec().block();
  for (const DType dtype : kFloatTypes) {
    for (std::uint64_t seed = 0; seed < 12; ++seed) {
      std::vector<std::byte> wire(codec().encoded_bytes(count, dtype));
      for (std::size_t i = 0; i < wire.size(); ++i) {
        wire[i] = static_cast<std::byte>(random_bits(seed, i) & 0xffU);
        if (seed % 3 == 1) wire[i] |= std::byte{0x7f};
        if (seed % 3 == 2 && i % 2 == 1) wire[i] &= std::byte{0x80};
      }
      const Case at{dtype, count, Values::normal};
      const Input peer{Term::Kind::encoded, wire};
      const Input mine{Term::Kind::plain, to_elements(make_values(Values::mixed, count, seed, dtype), dtype)};
      const auto results_on = [&](Target target) {
        const ScopedTarget scope(target);
        std::vector<Decoded> results;
        results.push_back(run_decode(codec(), at, {peer}));
        results.push_back(run_decode(codec(), at, {peer}, {ReduceOp::avg, true, 3, -1}));
        results.push_back(run_decode(codec(), at, {mine, peer}, {ReduceOp::sum, false, 1, 0}));
        results.push_back({run_encode(codec(), at, {peer, mine}).wire, true});
        return results;
      };
      const std::vector<Decoded> expected = results_on(simd::kScalar);
      for (const Target target : vector_targets()) {
        const std::vector<Decoded> actual = results_on(target);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          ASSERT_EQ(actual[i].elements, expected[i].elements)
              << simd::target_name(target) << ", result " << i << ", seed " << seed << ", " << at.describe();
          ASSERT_EQ(actual[i].finite, expected[i].finite)
              << simd::target_name(target) << ", result " << i << ", seed " << seed << ", " << at.describe();
        }
      }
    }
  }
}

// The noise is counted in the tensor, not in the call; its counter wraps at 2^33 elements.
TEST_P(SimdEqualsScalar, FarIntoATensor) {
  const std::size_t count = 6 * codec().block();
  const Case at{DType::f32, count, Values::normal};
  const std::vector<Input> terms = {
      {Term::Kind::plain, to_elements(make_values(at.values, count, 5), at.dtype)}};
  const std::uint64_t blocks_to_wrap = (std::uint64_t{1} << 33) / codec().block();
  for (const std::uint64_t blocks : {std::uint64_t{1}, blocks_to_wrap - 2, blocks_to_wrap + 7}) {
    EncodeOptions options;
    options.noise = {noise_key(1, 2, 3, 4), blocks * codec().block()};
    const auto encode_on = [&](Target target) {
      const ScopedTarget scope(target);
      return run_encode(codec(), at, terms, options).wire;
    };
    const std::vector<std::byte> expected = encode_on(simd::kScalar);
    for (const Target target : vector_targets()) {
      EXPECT_EQ(encode_on(target), expected) << simd::target_name(target) << ", block " << blocks;
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  }
  return name;
}

INSTANTIATE_TEST_SUITE_P(AllCodecs, SimdEqualsScalar, ::testing::ValuesIn(specs_under_test()), test_name);

}  // namespace
}  // namespace ferrule::codec::testing
