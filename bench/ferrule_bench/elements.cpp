#include "bench/ferrule_bench/elements.hpp"

#include <bit>
#include <cmath>
#include <cstring>

namespace ferrule::bench {
namespace {

struct Half {
  std::uint16_t bits;
};
struct Brain {
  std::uint16_t bits;
};

double to_double(Half half) {
  const int exponent = (half.bits >> 10) & 31;
  const double fraction = half.bits & 1023;
  double magnitude =
      std::ldexp(exponent == 0 ? fraction : fraction + 1024, (exponent == 0 ? 1 : exponent) - 25);
  if (exponent == 31) magnitude = fraction == 0 ? HUGE_VAL : std::nan("");
  return (half.bits & 0x8000) != 0 ? -magnitude : magnitude;
}

double to_double(Brain brain) { return std::bit_cast<float>(static_cast<std::uint32_t>(brain.bits) << 16); }

template <class T>
double to_double(T value) {
  return static_cast<double>(value);
}

template <class T>
T from_double(double value, T) {
  return static_cast<T>(value);
}

/// Through the double's own grid: an integer number of the format's smallest steps, rounded to even by
/// nearbyint.
Half from_double(double value, Half) {
  const auto sign = static_cast<std::uint16_t>(std::signbit(value) ? 0x8000 : 0);
  const double magnitude = std::fabs(value);
  if (std::isnan(value)) return {0x7e00};
  if (magnitude >= 65520)
    return {static_cast<std::uint16_t>(sign | 0x7c00)};  // rounds past the largest, 65504
  const int exponent = magnitude < 0x1p-14 ? -14 : std::ilogb(magnitude);
  // At 2^exponent a step is 2^(exponent-10); a mantissa that rounds up to 2048 carries into the exponent by
  // itself.
  const auto steps = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return {static_cast<std::uint16_t>(sign | (((exponent + 14) << 10) + steps))};
}

Brain from_double(double value, Brain) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) return {static_cast<std::uint16_t>((bits >> 16) | 0x40)};
  return {static_cast<std::uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16)};
}

/// Calls function(T{}) with the C++ type of `dtype`.
template <class Function>
void with_type(DType dtype, Function function) {
  switch (dtype) {
    case DType::f32:
      return function(float{});
    case DType::f64:
      return function(double{});
    case DType::f16:
      return function(Half{});
    case DType::bf16:
      return function(Brain{});
    case DType::i32:
      return function(std::int32_t{});
    case DType::i64:
      return function(std::int64_t{});
    case DType::u8:
      return function(std::uint8_t{});
  }
}

}  // namespace

void load_elements(const void* source, DType dtype, std::span<double> out) {
  with_type(dtype, [&](auto kind) {
    const auto* bytes = static_cast<const std::byte*>(source);
    for (double& value : out) {
      std::memcpy(&kind, bytes, sizeof kind);  // the source need not be aligned
      bytes += sizeof kind;
      value = to_double(kind);
    }
  });
}

void store_elements(std::span<const double> values, DType dtype, void* target) {
  with_type(dtype, [&](auto kind) {
    auto* bytes = static_cast<std::byte*>(target);
    for (const double value : values) {
      const auto element = from_double(value, kind);
      std::memcpy(bytes, &element, sizeof element);
      bytes += sizeof element;
    }
  });
}

double rounded_to(DType dtype, double value) {
  double result = 0;
  with_type(dtype, [&](auto kind) { result = to_double(from_double(value, kind)); });
  return result;
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::f32:
      return 0x1p-24;
    case DType::f64:
      return 0x1p-53;
    case DType::f16:
      return 0x1p-11;
    case DType::bf16:
      return 0x1p-8;
    default:
      return 0;
  }
}

}  // namespace ferrule::bench
