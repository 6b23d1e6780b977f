// How each dtype is read, accumulated and written by the identity codec, on the host and on a CUDA device.
#pragma once

#include <cstdint>
#include <limits>
#include <type_traits>

#include "codec/format/portable.hpp"

namespace ferrule::codec::raw {

/// f32, f64 and integers: accumulated as they are (integers wrap).
template <class T>
struct PlainElement {
  using Storage = T;
  using Value = T;
  FERRULE_HD static Value widen(Storage stored) { return stored; }
  FERRULE_HD static Storage narrow(Value value) { return value; }
};

/// f16, bf16: accumulated in f32, rounded once.
template <float (*to_f32)(std::uint16_t), std::uint16_t (*from_f32)(float)>
struct HalfElement {
  using Storage = std::uint16_t;
  using Value = float;
  FERRULE_HD static Value widen(Storage stored) { return to_f32(stored); }
  FERRULE_HD static Storage narrow(Value value) { return from_f32(value); }
};

/// Sum modulo 2^bits: through u64, because signed overflow is undefined.
template <class T>
FERRULE_HD T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}

template <class T>
FERRULE_HD T multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
}

/// The sign bit: of a zero, too.
template <class T>
FERRULE_HD bool is_negative(T value) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8);
  std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t> bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits >> (8 * sizeof bits - 1) != 0;
}

/// Smaller one; -0 < +0; NaN if either is. Integers: plain.
template <class T>
FERRULE_HD T least(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b != b) return b;  // NaN
    if (a == b) return is_negative(a) ? a : b;
  }
  return b < a ? b : a;
}

template <class T>
FERRULE_HD T greatest(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (b != b) return b;  // NaN
    if (a == b) return is_negative(a) ? b : a;
  }
  return a < b ? b : a;
}

/// Division of avg and the one NaN of every NaN result.
template <class T>
FERRULE_HD T finish(T value, std::uint32_t divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    const T result = divisor == 1 ? value : value / static_cast<T>(divisor);
    return result != result ? std::numeric_limits<T>::quiet_NaN() : result;
  } else if constexpr (sizeof(T) == 8) {
    return value / static_cast<std::int64_t>(divisor);
  } else {
    return static_cast<T>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(divisor));
  }
}

}  // namespace ferrule::codec::raw
