// What a bucket needs besides its codec, and what the interface refuses.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "codec/harness.hpp"
#include "cuda/codec_kernels.hpp"
#include "kernels/device_memory.hpp"
#include "residual/residual.hpp"

namespace ferrule::cuda::testing {
namespace {

using namespace codec::testing;

class Bucket : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_device()) GTEST_SKIP() << "no CUDA device";
  }
};

std::vector<float> kept_by_kernel(const std::vector<std::byte>& out, DType dtype,
                                  const std::vector<float>& before, std::vector<float> after,
                                  std::uint32_t flag) {
  DeviceBuffers buffers;
  KeepArgs args;
  args.out = buffers.read(out.data(), out.size());
  args.dtype = dtype;
  args.count = before.size();
  args.before = buffers.read(before.data(), before.size() * sizeof(float));
  args.after = buffers.write(after.data(), after.size() * sizeof(float));
  args.only_if = buffers.read(&flag, sizeof flag);
  const Status status = keep_where_not_finite(args, nullptr);
  EXPECT_TRUE(status.ok()) << status.text();
  buffers.finish();
  return after;
}

TEST_F(Bucket, ResidualsStayWhereNothingWasDelivered) {
  std::uint64_t schedule = 0;
  for (const DType dtype : kFloatTypes) {
    for (const std::size_t count : {1, 2, 3, 5, 1023, 1024, 2500}) {
      for (const Values values : {Values::normal, Values::with_nan, Values::with_minus_infinity}) {
        choose_schedule(schedule++);
        const auto out = to_elements(make_values(values, count, 1, dtype), dtype);
        const std::vector<float> before = make_values(Values::normal, count, 2);
        const std::vector<float> after = make_values(Values::normal, count, 3);
        std::vector<float> expected = after;
        residual::keep_where_not_finite(out.data(), dtype, count, before.data(), expected.data());
        EXPECT_EQ(kept_by_kernel(out, dtype, before, after, 1), expected);
        EXPECT_EQ(kept_by_kernel(out, dtype, before, after, 0), after)
            << "the flag says that all was delivered";
      }
    }
  }
}

/// Tensors of one bucket, at element offsets that are no multiples of 16 bytes.
struct Tensors {
  Tensors(DType dtype, const std::vector<std::size_t>& counts) : type(dtype) {
    for (const std::size_t count : counts) {
      offsets.push_back(values.size());
      const auto more = make_values(Values::normal, count, offsets.size(), dtype);
      values.insert(values.end(), more.begin(), more.end());
      sizes.push_back(count);
    }
    elements = to_elements(values, dtype);
    values = to_floats(elements, dtype);
  }
  DType type;
  std::vector<float> values;
  std::vector<std::byte> elements;
  std::vector<std::size_t> offsets, sizes;
};

std::vector<double> squares_of(const Tensors& tensors, std::vector<std::byte>& scratch) {
  DeviceBuffers buffers;
  const std::byte* data = buffers.read(tensors.elements.data(), tensors.elements.size());
  std::vector<Segment> segments;
  for (std::size_t i = 0; i < tensors.sizes.size(); ++i) {
    segments.push_back({data + tensors.offsets[i] * element_bytes(tensors.type), tensors.sizes[i]});
  }
  std::vector<double> squares(segments.size(), -1);
  if (scratch.empty()) scratch.resize(sums_scratch_bytes(segments));
  const Status status =
      sums_of_squares(segments, tensors.type, buffers.write(squares.data(), squares.size() * sizeof(double)),
                      buffers.write(scratch.data(), scratch.size()), nullptr);
  EXPECT_TRUE(status.ok()) << status.text();
  buffers.finish();
  return squares;
}

TEST_F(Bucket, SumsOfSquaresOfManyTensors) {
  for (const DType dtype : kFloatTypes) {
    const Tensors tensors(dtype, {1, 0, 3, 4096, 4097, 33000, 5, 700});
    choose_schedule(1);
    std::vector<std::byte> scratch;
    const std::vector<double> squares = squares_of(tensors, scratch);
    for (std::size_t i = 0; i < squares.size(); ++i) {
      double expected = 0;
      for (std::size_t e = 0; e < tensors.sizes[i]; ++e) {
        const double value = tensors.values[tensors.offsets[i] + e];
        expected += value * value;
      }
      EXPECT_NEAR(squares[i], expected, 1e-12 * expected) << "tensor " << i;
    }
    // The same bits in any order of blocks, and with scratch that has been used.
    for (std::uint64_t schedule = 2; schedule < 20; ++schedule) {
      choose_schedule(schedule);
      EXPECT_EQ(squares_of(tensors, scratch), squares) << "schedule " << schedule;
    }
  }
}

TEST_F(Bucket, MoreTensorsThanALaunchTakes) {
  const Tensors tensors(DType::f32, std::vector<std::size_t>(300, 7));
  std::vector<std::byte> scratch;
  const std::vector<double> squares = squares_of(tensors, scratch);
  for (std::size_t i = 0; i < squares.size(); ++i) {
    double expected = 0;
    for (std::size_t e = 0; e < 7; ++e) expected += std::pow(double{tensors.values[7 * i + e]}, 2);
    ASSERT_NEAR(squares[i], expected, 1e-12 * expected) << i;
  }
}

TEST_F(Bucket, NotFiniteTensorsHaveSuchSquares) {
  Tensors tensors(DType::f32, {10, 10});
  const float bad = std::numeric_limits<float>::infinity();
  std::memcpy(tensors.elements.data() + 4 * 12, &bad, sizeof bad);
  std::vector<std::byte> scratch;
  const std::vector<double> squares = squares_of(tensors, scratch);
  EXPECT_TRUE(std::isfinite(squares[0]));
  EXPECT_TRUE(std::isinf(squares[1]));
}

class Unknown final : public codec::Codec {
 public:
  const std::string& spec() const override { return spec_; }
  std::size_t block() const override { return 1; }
  bool exact() const override { return true; }
  bool identity() const override { return false; }
  bool supports(DType, ReduceOp) const override { return true; }
  std::size_t encoded_bytes(std::size_t count, DType) const override { return count; }
  void encode(const codec::EncodeArgs&) const override {}
  bool decode(const codec::DecodeArgs&) const override { return true; }
  double relative_bound() const override { return 0; }
  double absolute_bound() const override { return 0; }

 private:
  std::string spec_ = "morse";
};

TEST(Interface, ACodecWithoutKernelsIsRefusedByName) {
  const auto found = find_kernels(Unknown());
  EXPECT_EQ(found.status().code(), ErrorCode::unsupported);
  EXPECT_NE(found.status().text().find("'morse' has no kernels"), std::string::npos) << found.status().text();
}

TEST(Interface, OfALevelListTheLastCodecCounts) {
  const auto list = make_or_fail("none/int4");
  const auto found = find_kernels(*list);
  ASSERT_TRUE(found.ok()) << found.status().text();
  EXPECT_EQ(found->variant, 4);
  EXPECT_EQ(found->block, 128u);
}

TEST(Interface, ADtypeThatACodecDoesNotTakeIsRefused) {
  const auto int4 = make_or_fail("int4");
  float value = 1;
  const codec::Term term{codec::Term::Kind::plain, &value};
  codec::EncodeArgs args;
  args.terms = {&term, 1};
  args.count = 1;
  args.dtype = DType::f64;
  Status status = encode(*int4, args, nullptr);
  EXPECT_EQ(status.code(), ErrorCode::unsupported);
  EXPECT_NE(status.text().find("sum of f64"), std::string::npos) << status.text();
  args.dtype = DType::f32;
  args.op = ReduceOp::max;
  EXPECT_EQ(encode(*int4, args, nullptr).code(), ErrorCode::unsupported);
}

TEST(Interface, MoreTermsThanALaunchTakesAreRefused) {
  const auto int4 = make_or_fail("int4");
  float value = 1;
  const std::vector<codec::Term> terms(kMostTerms + 1, codec::Term{codec::Term::Kind::plain, &value});
  codec::DecodeArgs args;
  args.terms = terms;
  args.count = 1;
  const Status status = decode(*int4, args, nullptr);
  EXPECT_EQ(status.code(), ErrorCode::unsupported);
  EXPECT_NE(status.text().find("257 contributions"), std::string::npos) << status.text();
}

TEST(Interface, NothingToDoIsNoLaunch) {
  const auto int4 = make_or_fail("int4");
  const codec::Term term{codec::Term::Kind::plain, nullptr};
  codec::EncodeArgs args;
  args.terms = {&term, 1};
  EXPECT_TRUE(encode(*int4, args, nullptr).ok());
}

}  // namespace
}  // namespace ferrule::cuda::testing
