// How each dtype is read, accumulated and written by the identity codec's scalar code.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

namespace ferrule::codec::raw {

/// f32, f64 and integers: accumulated as they are (integers wrap).
template <class T>
struct PlainElement {
  using Storage = T;
  using Value = T;
  static Value widen(Storage stored) { return stored; }
  static Storage narrow(Value value) { return value; }
};

/// f16, bf16: accumulated in f32, rounded once.
template <float (*to_f32)(std::uint16_t), std::uint16_t (*from_f32)(float)>
struct HalfElement {
  using Storage = std::uint16_t;
  using Value = float;
  static Value widen(Storage stored) { return to_f32(stored); }
  static Storage narrow(Value value) { return from_f32(value); }
};

/// Sum modulo 2^bits: through u64, because signed overflow is undefined.
template <class T>
T add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}

template <class T>
T multiply(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
}

/// Smaller one; -0 < +0; NaN if either is. Integers: plain.
template <class T>
T least(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return b;
    if (a == b) return std::signbit(a) ? a : b;
  }
  return b < a ? b : a;
}

template <class T>
T greatest(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(b)) return b;
    if (a == b) return std::signbit(a) ? b : a;
  }
  return a < b ? b : a;
}

/// Division of avg and the one NaN of every NaN result.
template <class T>
T finish(T value, std::uint32_t divisor) {
  if constexpr (std::is_floating_point_v<T>) {
    const T result = divisor == 1 ? value : value / static_cast<T>(divisor);
    return std::isnan(result) ? std::numeric_limits<T>::quiet_NaN() : result;
  } else if constexpr (sizeof(T) == 8) {
    return value / static_cast<std::int64_t>(divisor);
  } else {
    return static_cast<T>(static_cast<std::int64_t>(value) / static_cast<std::int64_t>(divisor));
  }
}

}  // namespace ferrule::codec::raw
