// What every registered codec must do, whatever it is: walks the registry, so nothing registered escapes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/harness.hpp"

namespace ferrule::codec::testing {
namespace {

constexpr double kF32Step = 0x1p-23;

std::vector<float> input_of(const Case& at, std::uint64_t seed = 1) {
  return to_floats(to_elements(make_values(at.values, at.length, seed, at.dtype), at.dtype), at.dtype);
}

Input plain(const Case& at, std::uint64_t seed = 1) {
  return {Term::Kind::plain, to_elements(make_values(at.values, at.length, seed, at.dtype), at.dtype)};
}

// Largest magnitude of each element's block, in fp64; infinite if the block holds a NaN or Inf.
std::vector<double> block_peaks(std::span<const float> x, std::size_t block) {
  std::vector<double> peaks(x.size());
  for (std::size_t first = 0; first < x.size(); first += block) {
    const std::size_t end = std::min(first + block, x.size());
    double peak = 0;
    for (std::size_t i = first; i < end; ++i) {
      peak = std::isfinite(x[i]) ? std::max(peak, std::fabs(double{x[i]})) : INFINITY;
    }
    std::fill(peaks.begin() + static_cast<std::ptrdiff_t>(first),
              peaks.begin() + static_cast<std::ptrdiff_t>(end), peak);
  }
  return peaks;
}

// Half a unit in the last place of a result that is stored as dtype, in the worst case.
double storage_error(double magnitude, DType dtype) {
  if (dtype == DType::f32) return 0;
  return dtype == DType::f16 ? magnitude * 0x1p-11 + 0x1p-25 : magnitude * 0x1p-8 + 0x1p-134;
}

class Conformance : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    codec_ = make_or_fail(GetParam());
    ASSERT_NE(codec_, nullptr);
  }
  const Codec& codec() const { return *codec_; }
  std::size_t block() const { return codec_->block(); }
  double bound(double peak) const { return codec_->relative_bound() * peak + codec_->absolute_bound(); }

  template <class Body>
  void for_each_case(Body body) const {
    for (const DType dtype : kFloatTypes) {
      for (const std::size_t length : lengths_for(block())) {
        for (const Values values : kAllValues) {
          const Case at{dtype, length, values};
          SCOPED_TRACE(at.describe());
          body(at);
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }

 private:
  std::unique_ptr<const Codec> codec_;
};

TEST_P(Conformance, SpecIsCanonical) {
  const auto again = make_or_fail(codec().spec());
  EXPECT_EQ(again->spec(), codec().spec());
  EXPECT_EQ(again->block(), block());
}

TEST_P(Conformance, SizesAreMonotonicAdditiveAndNeverAnExpansionOfF32) {
  EXPECT_EQ(codec().encoded_bytes(0, DType::f32), 0u);
  for (const DType dtype : kFloatTypes) {
    std::size_t previous = 0;
    for (std::size_t n = 1; n <= 3 * block() + 1; ++n) {
      const std::size_t bytes = codec().encoded_bytes(n, dtype);
      ASSERT_GE(bytes, previous) << n;
      ASSERT_LE(bytes, n * sizeof(float)) << n << " elements";
      ASSERT_EQ(codec().encoded_bytes(n + 5 * block(), dtype),
                bytes + 5 * codec().encoded_bytes(block(), dtype));
      previous = bytes;
    }
  }
}

TEST_P(Conformance, RoundTripIsWithinTheBound) {
  for_each_case([&](const Case& at) {
    const std::vector<float> x = input_of(at);
    const std::vector<double> peaks = block_peaks(x, block());
    const Encoded encoded = run_encode(codec(), at, {plain(at)});
    EXPECT_EQ(encoded.wire, run_encode(codec(), at, {plain(at)}).wire) << "encoding twice gives other bytes";
    const Decoded decoded = run_decode(codec(), at, {{Term::Kind::encoded, encoded.wire}});
    const std::vector<float> y = to_floats(decoded.elements, at.dtype);
    if (!codec().exact()) {
      EXPECT_EQ(decoded.finite, !holds_non_finite(at.values) || at.length == 0);
    }
    for (std::size_t i = 0; i < at.length; ++i) {
      if (!std::isfinite(peaks[i]) || !std::isfinite(x[i])) continue;  // see NonFiniteValuesSurvive
      const double allowed = bound(peaks[i]);
      // 16-bit storage may round up to Inf what was already at the top of its range.
      if (!std::isfinite(y[i]) && storage_error(std::fabs(x[i]) + allowed, at.dtype) > 0) continue;
      ASSERT_LE(std::fabs(double{y[i]} - x[i]), allowed + storage_error(std::fabs(y[i]), at.dtype))
          << "element " << i << ": " << x[i] << " became " << y[i] << ", largest of its block " << peaks[i];
    }
  });
}

TEST_P(Conformance, ZerosAreExact) {
  for (const Values values : {Values::zeros, Values::negative_zeros, Values::one_hot}) {
    const Case at{DType::f32, 3 * block() + 5, values};
    const Encoded encoded = run_encode(codec(), at, {plain(at)});
    const auto y =
        to_floats(run_decode(codec(), at, {{Term::Kind::encoded, encoded.wire}}).elements, at.dtype);
    const std::vector<float> x = input_of(at);
    for (std::size_t i = 0; i < at.length; ++i) {
      if (x[i] == 0.0f) {
        ASSERT_EQ(y[i], 0.0f) << i;
      }
    }
  }
}

TEST_P(Conformance, EveryMisalignmentGivesTheSameResult) {
  for (const DType dtype : kFloatTypes) {
    Case at{dtype, 2 * block() + 7, Values::normal};
    const std::vector<Entry> expected = transcript(codec(), at);
    for (std::size_t slack = 0; slack < 16; ++slack) {
      at.wire_slack = slack;
      at.element_slack = slack % 4;
      ASSERT_EQ(first_difference(expected, transcript(codec(), at)), "") << at.describe();
    }
  }
}

TEST_P(Conformance, OperationsOnAllValuesStayWithinTheirBuffers) {
  for (const DType dtype : kFloatTypes) {
    for (const Values values : kAllValues) {
      const Case at{dtype, block() + 1, values};
      SCOPED_TRACE(at.describe());
      const std::vector<Entry> first = transcript(codec(), at);
      ASSERT_EQ(first_difference(first, transcript(codec(), at)), "");
    }
  }
}

// A block (a cast without scales: an element) that holds a NaN or Inf arrives as NaN or Inf; everything else
// keeps its bound, and what did not arrive as a number keeps its residual.
TEST_P(Conformance, NonFiniteValuesSurvive) {
  if (codec().exact()) GTEST_SKIP() << "an exact codec keeps every bit";
  for (const Values values : {Values::with_nan, Values::with_infinity, Values::with_minus_infinity}) {
    const Case at{DType::f32, 4 * block() + 9, values};
    const std::vector<float> x = input_of(at);
    EncodeOptions options;
    options.keep = Keep::add;
    options.before = make_values(Values::normal, at.length, 5);
    const Encoded encoded = run_encode(codec(), at, {plain(at)}, options);
    const Decoded decoded = run_decode(codec(), at, {{Term::Kind::encoded, encoded.wire}});
    EXPECT_FALSE(decoded.finite);
    const std::vector<float> y = to_floats(decoded.elements, at.dtype);
    const std::vector<double> peaks = block_peaks(x, block());
    for (std::size_t i = 0; i < at.length; ++i) {
      if (!std::isfinite(x[i])) {
        ASSERT_FALSE(std::isfinite(y[i])) << i;
      }
      if (std::isfinite(peaks[i])) {
        ASSERT_TRUE(std::isfinite(y[i])) << "a block without NaN or Inf, element " << i;
      }
      if (!std::isfinite(y[i])) {
        ASSERT_EQ(encoded.residual[i], options.before[i]) << i;
      }
      ASSERT_TRUE(std::isfinite(encoded.residual[i])) << i;
    }
  }
}

TEST_P(Conformance, LedgerOfOneEncode) {
  for (const Values values : {Values::normal, Values::constant, Values::huge, Values::tiny, Values::mixed}) {
    const Case at{DType::f32, 3 * block() + 11, values};
    const std::vector<float> x = input_of(at);
    for (const Keep keep : {Keep::add, Keep::charge}) {
      EncodeOptions options;
      options.keep = keep;
      options.noise.key = 99;
      // Of the other sign than the value, so that the sum of huge ones stays finite.
      options.before = x;
      for (float& residual : options.before) residual *= -0.01f;
      const Encoded encoded = run_encode(codec(), at, {plain(at)}, options);
      const auto y =
          to_floats(run_decode(codec(), at, {{Term::Kind::encoded, encoded.wire}}).elements, at.dtype);
      const std::vector<double> peaks = block_peaks(x, block());
      for (std::size_t i = 0; i < at.length; ++i) {
        const double in = double{x[i]} + options.before[i];
        ASSERT_NEAR(in, double{y[i]} + encoded.residual[i], 1e-6 * peaks[i] + 0x1p-148) << i;
      }
    }
  }
}

// The error of a final encode is measured against what ranks store: rounded to their dtype, and averaged.
TEST_P(Conformance, LedgerOfAFinalEncode) {
  for (const DType dtype : kFloatTypes) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg}) {
      const std::uint32_t world = op == ReduceOp::avg ? 3 : 1;
      const Case at{dtype, 2 * block() + 3, Values::normal};
      EncodeOptions options;
      options.keep = Keep::add;
      options.before = make_values(Values::constant, at.length, 6);
      options.op = op;
      options.final = true;
      options.world = world;
      const Encoded encoded = run_encode(codec(), at, {plain(at)}, options);
      const Decoded decoded =
          run_decode(codec(), at, {{Term::Kind::encoded, encoded.wire}}, {op, true, world, -1});
      if (codec().exact()) continue;  // delivers the input, and leaves the residual alone
      const std::vector<float> x = input_of(at);
      const std::vector<float> y = to_floats(decoded.elements, dtype);
      for (std::size_t i = 0; i < at.length; ++i) {
        const double in = double{x[i]} + options.before[i];
        ASSERT_NEAR(in, double{y[i]} * world + encoded.residual[i], 4e-6)
            << i << ' ' << dtype_name(dtype) << ' ' << op_name(op);
      }
    }
  }
}

TEST_P(Conformance, NoResidualBeforeMeansZeros) {
  const Case at{DType::f32, 2 * block() + 3, Values::normal};
  EncodeOptions zeros;
  zeros.keep = Keep::add;
  zeros.before.assign(at.length, 0.0f);
  const Encoded expected = run_encode(codec(), at, {plain(at)}, zeros);
  const Input input = plain(at);
  const Term term{Term::Kind::plain, input.bytes.data()};
  std::vector<float> after(at.length, 123.0f);
  std::vector<std::byte> wire(expected.wire.size());
  EncodeArgs args;
  args.terms = {&term, 1};
  args.count = at.length;
  args.feedback.after = after.data();
  args.out = wire.data();
  codec().encode(args);
  EXPECT_EQ(wire, expected.wire);
  EXPECT_EQ(after, expected.residual);
}

// A sum that the tensor's dtype cannot hold is delivered as Inf; what is left of it must not be.
TEST_P(Conformance, ResultBeyondTheDtypeKeepsTheResidual) {
  if (codec().exact()) GTEST_SKIP() << "an exact codec leaves residuals alone";
  const Case at{DType::f16, block() + 2, Values::huge};
  EncodeOptions options;
  options.keep = Keep::add;
  options.final = true;
  options.before.assign(at.length, 30000.0f);
  const Encoded encoded = run_encode(codec(), at, {plain(at)}, options);
  const Decoded decoded =
      run_decode(codec(), at, {{Term::Kind::encoded, encoded.wire}}, {ReduceOp::sum, true, 1, -1});
  const std::vector<float> y = to_floats(decoded.elements, at.dtype);
  EXPECT_TRUE(std::any_of(y.begin(), y.end(), [](float v) { return std::isinf(v); }));
  for (std::size_t i = 0; i < at.length; ++i) {
    ASSERT_TRUE(std::isfinite(encoded.residual[i])) << i;
    if (std::isinf(y[i])) {
      ASSERT_EQ(encoded.residual[i], 30000.0f) << i;
    }
  }
}

// Errors that are charged to a residual which is nearly full: it must not become infinite, or it stays so for
// ever.
TEST_P(Conformance, AChargeNeverOverflowsTheResidual) {
  const Case at{DType::f32, 2 * block() + 3, Values::huge};
  for (const float full : {3.4e38f, -3.4e38f}) {
    EncodeOptions options;
    options.keep = Keep::charge;
    options.before.assign(at.length, full);
    const Encoded encoded = run_encode(codec(), at, {plain(at)}, options);
    for (const float after : encoded.residual) ASSERT_TRUE(std::isfinite(after)) << after;
  }
}

// One pass over several terms is the same as a pass per term in fp32.
TEST_P(Conformance, HopAndReduceEqualPassByPass) {
  for (const Values values : kAllValues) {
    const Case at{DType::f32, 2 * block() + 5, values};
    const Input a{Term::Kind::encoded, run_encode(codec(), at, {plain(at, 1)}).wire};
    const Input b{Term::Kind::encoded, run_encode(codec(), at, {plain(at, 2)}).wire};
    const Input mine = plain(at, 3);
    Input sum{Term::Kind::plain, run_decode(codec(), at, {a}).elements};
    sum.bytes = run_decode(codec(), at, {sum, mine}, {ReduceOp::sum, false, 1, 0}).elements;
    EXPECT_EQ(run_encode(codec(), at, {a, mine}).wire, run_encode(codec(), at, {sum}).wire) << at.describe();
    sum.bytes = run_decode(codec(), at, {sum, b}, {ReduceOp::sum, false, 1, 0}).elements;
    EXPECT_EQ(run_encode(codec(), at, {a, mine, b}).wire, run_encode(codec(), at, {sum}).wire)
        << at.describe();
    EXPECT_EQ(run_decode(codec(), at, {a, mine, b}).elements, sum.bytes) << at.describe();
  }
}

// Slices cut at blocks give the bits of the whole, random bits included.
TEST_P(Conformance, SlicesEqualTheWhole) {
  const Case whole{DType::f32, 7 * block() + 13, Values::normal};
  const Input all = plain(whole);
  EncodeOptions options;
  options.noise = {noise_key(1, 2, 3, 4), 64 * block()};
  const auto encode_decode = [&](const Case& at, const Input& input, const EncodeOptions& with) {
    const Encoded encoded = run_encode(codec(), at, {input}, with);
    return run_decode(codec(), at, {{Term::Kind::encoded, encoded.wire}}).elements;
  };
  const std::vector<std::byte> expected = encode_decode(whole, all, options);
  for (const std::size_t blocks : {1u, 2u, 3u, 5u}) {
    std::vector<std::byte> pieces;
    for (std::size_t first = 0; first < whole.length; first += blocks * block()) {
      const Case at{DType::f32, std::min(blocks * block(), whole.length - first), Values::normal};
      const auto begin = all.bytes.begin() + static_cast<std::ptrdiff_t>(4 * first);
      EncodeOptions slice = options;
      slice.noise.first_element += first;
      const auto part = encode_decode(
          at, {Term::Kind::plain, {begin, begin + static_cast<std::ptrdiff_t>(4 * at.length)}}, slice);
      pieces.insert(pieces.end(), part.begin(), part.end());
    }
    EXPECT_EQ(pieces, expected) << blocks << " blocks a slice";
  }
}

TEST_P(Conformance, AverageIsTheSumDivided) {
  const Case at{DType::f32, 3 * block() + 1, Values::normal};
  EncodeOptions options;
  options.op = ReduceOp::avg;
  options.final = true;
  options.world = 3;
  const Encoded sum = run_encode(codec(), at, {plain(at)});
  const Encoded averaged = run_encode(codec(), at, {plain(at)}, options);
  const auto y = to_floats(run_decode(codec(), at, {{Term::Kind::encoded, sum.wire}}).elements, at.dtype);
  const auto mean = to_floats(
      run_decode(codec(), at, {{Term::Kind::encoded, averaged.wire}}, {ReduceOp::avg, true, 3, -1}).elements,
      at.dtype);
  for (std::size_t i = 0; i < at.length; ++i) {
    ASSERT_NEAR(double{mean[i]}, double{y[i]} / 3, std::fabs(y[i]) * kF32Step) << i;
  }
}

TEST_P(Conformance, HostileBytesDecode) {
  for (const DType dtype : kFloatTypes) {
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
      const Case at{dtype, 1 + random_bits(seed, 1) % (3 * block()), Values::normal, seed % 16, seed % 4};
      Input hostile{Term::Kind::encoded, std::vector<std::byte>(codec().encoded_bytes(at.length, dtype))};
      for (std::size_t i = 0; i < hostile.bytes.size(); ++i) {
        // Every fourth stream is mostly ones, where NaN, Inf and the largest scales are.
        const std::uint64_t bits = random_bits(seed + 100, i);
        hostile.bytes[i] = static_cast<std::byte>(seed % 4 == 0 ? bits | (bits >> 8) | (bits >> 16) : bits);
      }
      const Decoded decoded = run_decode(codec(), at, {hostile});
      const std::vector<float> y = to_floats(decoded.elements, dtype);
      const bool finite = std::all_of(y.begin(), y.end(), [](float v) { return std::isfinite(v); });
      if (!codec().exact() && dtype == DType::f32) {
        EXPECT_EQ(decoded.finite, finite);
      }
      run_encode(codec(), at, {hostile, plain(at)});
      run_decode(codec(), at, {plain(at), hostile}, {ReduceOp::avg, true, 4, 0});
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<std::string>& info) {
  std::string name = info.param;
  std::replace_if(
      name.begin(), name.end(), [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Registry, Conformance, ::testing::ValuesIn(specs_under_test()), test_name);

}  // namespace
}  // namespace ferrule::codec::testing
