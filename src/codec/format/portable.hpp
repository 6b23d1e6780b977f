// What the format headers need to compile for the host and for a CUDA device: no containers, no exceptions,
// no library arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#define FERRULE_HD __host__ __device__
#else
#define FERRULE_HD
#endif

namespace ferrule::codec::format {

FERRULE_HD inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

FERRULE_HD inline float float_of(std::uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline constexpr std::uint32_t kMagnitudeMask = 0x7fffffffu;
inline constexpr std::uint32_t kInfinityBits = 0x7f800000u;
/// The one NaN that Ferrule writes. Processors and devices differ in the NaNs that they make and propagate,
/// so payloads are never passed on.
inline constexpr std::uint32_t kCanonicalNanBits = 0x7fc00000u;

/// Magnitude as an integer: orders finite values, then Inf, then NaN. A float maximum would lose NaN.
FERRULE_HD inline std::uint32_t magnitude_bits(float value) { return bits_of(value) & kMagnitudeMask; }

FERRULE_HD inline bool is_finite(float value) { return magnitude_bits(value) < kInfinityBits; }

FERRULE_HD inline float canonical_nan() { return float_of(kCanonicalNanBits); }

/// Bytes, not words: encoded bytes have any alignment. Little endian whatever the machine.
FERRULE_HD inline std::uint32_t load_byte(const std::byte* at) { return static_cast<std::uint32_t>(*at); }

FERRULE_HD inline void store_byte(std::byte* at, std::uint32_t value) {
  *at = static_cast<std::byte>(value & 0xffu);
}

FERRULE_HD inline std::uint16_t load_u16(const std::byte* at) {
  return static_cast<std::uint16_t>(load_byte(at) | (load_byte(at + 1) << 8));
}

FERRULE_HD inline void store_u16(std::byte* at, std::uint32_t value) {
  store_byte(at, value);
  store_byte(at + 1, value >> 8);
}

FERRULE_HD inline std::uint32_t load_u32(const std::byte* at) {
  return load_byte(at) | (load_byte(at + 1) << 8) | (load_byte(at + 2) << 16) | (load_byte(at + 3) << 24);
}

FERRULE_HD inline void store_u32(std::byte* at, std::uint32_t value) {
  store_u16(at, value);
  store_u16(at + 2, value >> 16);
}

}  // namespace ferrule::codec::format
