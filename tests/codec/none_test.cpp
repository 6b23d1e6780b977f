// The raw codec's contract: copies, in place, residuals, sizes, errors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "codec/harness.hpp"
#include "support/guard_buffer.hpp"

namespace ferrule::codec::testing {
namespace {

using ferrule::testing::GuardBuffer;

constexpr DType kAllTypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                               DType::i32, DType::i64, DType::u8};
constexpr ReduceOp kAllOps[] = {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max, ReduceOp::prod};

TEST(None, SupportsEverythingAndIsExact) {
  const auto codec = make_or_fail("none");
  EXPECT_TRUE(codec->exact());
  EXPECT_TRUE(codec->identity());
  EXPECT_EQ(codec->relative_bound(), 0);
  for (const DType dtype : kAllTypes) {
    for (const ReduceOp op : kAllOps) EXPECT_TRUE(codec->supports(dtype, op));
    EXPECT_EQ(codec->encoded_bytes(7, dtype), 7 * element_bytes(dtype));
  }
}

TEST(None, RefusesParameters) {
  const auto made = make_codec("none:block=32");
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.status().text(), ::testing::HasSubstr("block=32"));
}

TEST(None, OneTermIsACopyOfEveryBitPattern) {
  const auto codec = make_or_fail("none");
  for (const DType dtype : kAllTypes) {
    const std::size_t count = 101;
    const std::size_t bytes = count * element_bytes(dtype);
    for (std::size_t slack = 0; slack < 16; ++slack) {
      GuardBuffer wire(bytes, slack);
      GuardBuffer elements(bytes);
      for (std::size_t i = 0; i < bytes; ++i) elements.data()[i] = static_cast<std::byte>(random_bits(1, i));
      const std::vector<std::byte> original(elements.data(), elements.data() + bytes);
      const Term plain[] = {{Term::Kind::plain, elements.data()}};
      EncodeArgs encode;
      encode.terms = plain;
      encode.count = count;
      encode.dtype = dtype;
      encode.out = wire.data();
      codec->encode(encode);
      EXPECT_EQ(0, std::memcmp(wire.data(), original.data(), bytes));
      std::memset(elements.data(), 0, bytes);
      const Term encoded[] = {{Term::Kind::encoded, wire.data()}};
      DecodeArgs decode;
      decode.terms = encoded;
      decode.count = count;
      decode.dtype = dtype;
      decode.op = ReduceOp::avg;
      decode.finish = true;  // a single encoded term was divided by who encoded it
      decode.world = 3;
      decode.out = elements.data();
      EXPECT_TRUE(codec->decode(decode));
      EXPECT_EQ(0, std::memcmp(elements.data(), original.data(), bytes));
      EXPECT_TRUE(wire.intact() && elements.intact());
    }
  }
}

TEST(None, EncodeInPlaceLeavesTheElements) {
  const auto codec = make_or_fail("none");
  std::vector<float> x(67);
  std::iota(x.begin(), x.end(), -3.0F);
  const std::vector<float> original = x;
  const Term plain[] = {{Term::Kind::plain, x.data()}};
  EncodeArgs args;
  args.terms = plain;
  args.count = x.size();
  args.out = reinterpret_cast<std::byte*>(x.data());
  codec->encode(args);
  EXPECT_EQ(x, original);
}

TEST(None, TheResidualStaysWhatItWas) {
  const auto codec = make_or_fail("none");
  const std::vector<float> x(40, 1.0F);
  std::vector<float> before(40);
  std::iota(before.begin(), before.end(), 0.5F);
  std::vector<float> after(40, -1.0F);
  std::vector<std::byte> wire(40 * sizeof(float));
  const Term plain[] = {{Term::Kind::plain, x.data()}};
  EncodeArgs args;
  args.terms = plain;
  args.count = x.size();
  args.out = wire.data();
  args.feedback.before = before.data();
  args.feedback.after = after.data();
  codec->encode(args);
  EXPECT_EQ(after, before);
  EXPECT_EQ(0, std::memcmp(wire.data(), x.data(), wire.size()));
  args.feedback.before = nullptr;
  codec->encode(args);
  EXPECT_EQ(after, std::vector<float>(40, 0.0F));
}

TEST(None, NoElementsTouchNothing) {
  const auto codec = make_or_fail("none");
  const Term terms[] = {{Term::Kind::plain, nullptr}, {Term::Kind::encoded, nullptr}};
  EncodeArgs encode;
  encode.terms = terms;
  codec->encode(encode);
  DecodeArgs decode;
  decode.terms = terms;
  EXPECT_TRUE(codec->decode(decode));
}

}  // namespace
}  // namespace ferrule::codec::testing
