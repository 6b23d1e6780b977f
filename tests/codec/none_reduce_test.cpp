// The raw codec's arithmetic against an oracle that is written differently: every dtype, operation, number of
// terms and SIMD target, on wire bytes of any alignment that end at an unmapped page.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <type_traits>

#include "codec/format/float16.hpp"
#include "codec/harness.hpp"
#include "codec/simd/target.hpp"
#include "support/guard_buffer.hpp"

namespace ferrule::codec::testing {
namespace {

using ferrule::testing::GuardBuffer;

struct F16 {
  std::uint16_t bits;
};
struct Bf16 {
  std::uint16_t bits;
};

template <class T>
constexpr bool kIsInteger = std::is_integral_v<T>;

float widen(F16 value) { return format::f16_to_f32(value.bits); }
float widen(Bf16 value) { return format::bf16_to_f32(value.bits); }
template <class T>
T widen(T value) {
  return value;
}

template <class T, class V>
T narrow(V value) {
  if constexpr (std::is_same_v<T, F16>) {
    return {format::f32_to_f16(value)};
  } else if constexpr (std::is_same_v<T, Bf16>) {
    return {format::f32_to_bf16(value)};
  } else {
    return value;
  }
}

// Integers in 128 bits: exact for one step, then reduced modulo 2^bits.
template <class V>
V oracle_step(V a, V b, ReduceOp op) {
  if constexpr (kIsInteger<V>) {
    using Wide = __int128;
    if (op == ReduceOp::min) return std::min(a, b);
    if (op == ReduceOp::max) return std::max(a, b);
    const Wide wide = op == ReduceOp::prod ? Wide{a} * Wide{b} : Wide{a} + Wide{b};
    return static_cast<V>(static_cast<unsigned __int128>(wide));
  } else {
    if (op == ReduceOp::sum || op == ReduceOp::avg) return a + b;
    if (op == ReduceOp::prod) return a * b;
    if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<V>::quiet_NaN();
    const bool a_is_less = a < b || (a == b && std::signbit(a) && !std::signbit(b));
    return (op == ReduceOp::min) == a_is_less ? a : b;
  }
}

template <class V>
V oracle_finish(V value, std::uint32_t divisor) {
  if constexpr (kIsInteger<V>) {
    return divisor == 1 ? value : static_cast<V>(__int128{value} / divisor);
  } else {
    const V result = divisor == 1 ? value : value / static_cast<V>(divisor);
    return std::isnan(result) ? std::numeric_limits<V>::quiet_NaN() : result;
  }
}

template <class T>
T make_element(std::uint64_t seed, std::size_t i, bool special) {
  const std::uint64_t bits = random_bits(seed, i);
  using V = decltype(widen(T{}));
  if constexpr (kIsInteger<T>) {
    return static_cast<T>(special ? bits : bits % 7);  // special: sums and products wrap
  } else {
    constexpr V kInfinity = std::numeric_limits<V>::infinity();
    constexpr V kSpecial[] = {V{0}, -V{0}, kInfinity, -kInfinity, std::numeric_limits<V>::denorm_min()};
    if (special && bits % 11 == 0) return narrow<T>(-std::numeric_limits<V>::quiet_NaN());
    if (special && bits % 3 == 0) return narrow<T>(kSpecial[bits / 16 % 5]);
    return narrow<T>(static_cast<V>(random_unit(seed, i)) * 4);
  }
}

struct Setting {
  DType dtype;
  ReduceOp op;
  std::size_t terms;
  std::size_t length;
  bool special;
  std::size_t slack;

  std::string describe() const {
    return fmt::format("{} {} of {} terms, {} elements{}, slack {}", dtype_name(dtype), op_name(op), terms,
                       length, special ? ", special values" : "", slack);
  }
};

/// The terms of one setting (one plain, the others wire bytes of odd alignment), and what must come out.
template <class T>
struct Fixture {
  explicit Fixture(const Setting& setting) {
    for (std::size_t t = 0; t < setting.terms; ++t) {
      const bool is_plain = t == setting.terms / 2;
      buffers.push_back(std::make_unique<GuardBuffer>(setting.length * sizeof(T),
                                                      is_plain ? 0 : (setting.slack + 3 * t) % 16));
      std::vector<T> values(setting.length);
      for (std::size_t i = 0; i < setting.length; ++i) values[i] = make_element<T>(t + 1, i, setting.special);
      if (setting.length != 0) std::memcpy(buffers.back()->data(), values.data(), setting.length * sizeof(T));
      terms.push_back({is_plain ? Term::Kind::plain : Term::Kind::encoded, buffers.back()->data()});
      inputs.push_back(std::move(values));
    }
  }

  std::vector<std::byte> expected(const Setting& setting, std::uint32_t divisor) const {
    std::vector<T> result(setting.length);
    for (std::size_t i = 0; i < setting.length; ++i) {
      auto value = widen(inputs[0][i]);
      for (std::size_t t = 1; t < setting.terms; ++t)
        value = oracle_step(value, widen(inputs[t][i]), setting.op);
      result[i] = narrow<T>(oracle_finish(value, divisor));
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(result.data());
    return {bytes, bytes + result.size() * sizeof(T)};
  }

  std::vector<std::unique_ptr<GuardBuffer>> buffers;
  std::vector<Term> terms;
  std::vector<std::vector<T>> inputs;
};

std::vector<std::byte> bytes_of(const GuardBuffer& buffer) {
  return {buffer.bytes().begin(), buffer.bytes().end()};
}

template <class T>
void check_encode(const Codec& codec, const Setting& setting, const Fixture<T>& fixture, bool final) {
  GuardBuffer out(setting.length * sizeof(T), setting.slack);
  EncodeArgs args;
  args.terms = fixture.terms;
  args.count = setting.length;
  args.dtype = setting.dtype;
  args.op = setting.op;
  args.final = final;
  args.world = 3;
  args.out = out.data();
  codec.encode(args);
  const bool divides = final && setting.op == ReduceOp::avg;
  if (setting.terms == 1 && !divides) return;  // a copy: see none_test.cpp
  ASSERT_EQ(bytes_of(out), fixture.expected(setting, divides ? 3 : 1)) << "encode";
  ASSERT_TRUE(out.intact());
}

/// decode over the plain term's own memory.
template <class T>
void check_decode_in_place(const Codec& codec, const Setting& setting, const Fixture<T>& fixture) {
  if (setting.terms == 1) return;
  GuardBuffer& out = *fixture.buffers[setting.terms / 2];
  DecodeArgs args;
  args.terms = fixture.terms;
  args.count = setting.length;
  args.dtype = setting.dtype;
  args.op = setting.op;
  args.finish = true;
  args.world = 3;
  args.out = out.data();
  EXPECT_TRUE(codec.decode(args));
  ASSERT_EQ(bytes_of(out), fixture.expected(setting, setting.op == ReduceOp::avg ? 3 : 1)) << "decode";
  for (const auto& buffer : fixture.buffers) ASSERT_TRUE(buffer->intact());
}

template <class T>
void check(const Setting& setting) {
  const auto codec = make_or_fail("none");
  for (const simd::Target target : simd::available_targets()) {
    const simd::ScopedTarget scope(target);
    SCOPED_TRACE(setting.describe() + " on " + simd::target_name(target));
    const Fixture<T> fixture(setting);
    check_encode(*codec, setting, fixture, false);
    check_encode(*codec, setting, fixture, true);
    check_decode_in_place(*codec, setting, fixture);
    if (::testing::Test::HasFailure()) return;
  }
}

void check_dtype(const Setting& setting) {
  switch (setting.dtype) {
    case DType::f32:
      return check<float>(setting);
    case DType::f64:
      return check<double>(setting);
    case DType::f16:
      return check<F16>(setting);
    case DType::bf16:
      return check<Bf16>(setting);
    case DType::i32:
      return check<std::int32_t>(setting);
    case DType::i64:
      return check<std::int64_t>(setting);
    case DType::u8:
      return check<std::uint8_t>(setting);
  }
}

class NoneReduce : public ::testing::TestWithParam<std::tuple<int, int>> {};

TEST_P(NoneReduce, EqualsTheOracle) {
  const auto dtype = static_cast<DType>(std::get<0>(GetParam()));
  const auto op = static_cast<ReduceOp>(std::get<1>(GetParam()));
  for (std::size_t terms = 1; terms <= 8; ++terms) {
    for (const std::size_t length : {0, 1, 3, 31, 32, 33, 64, 257, 1009}) {
      for (const bool special : {false, true}) {
        check_dtype({dtype, op, terms, length, special, (5 * terms + length) % 16});
        if (HasFailure()) return;
      }
    }
  }
}

std::string test_name(const ::testing::TestParamInfo<std::tuple<int, int>>& info) {
  return fmt::format("{}_{}", dtype_name(static_cast<DType>(std::get<0>(info.param))),
                     op_name(static_cast<ReduceOp>(std::get<1>(info.param))));
}

INSTANTIATE_TEST_SUITE_P(AllTypesAndOperations, NoneReduce,
                         ::testing::Combine(::testing::Range(0, kDTypeCount),
                                            ::testing::Range(0, kReduceOpCount)),
                         test_name);

}  // namespace
}  // namespace ferrule::codec::testing
