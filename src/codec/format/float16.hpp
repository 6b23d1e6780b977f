// Conversions between fp32 and the two 16-bit floats, on bits: round to nearest even, denormals kept, every
// NaN becomes the canonical one. Equal on every compiler, processor and device.
#pragma once

#include "codec/format/portable.hpp"

namespace ferrule::codec::format {

inline constexpr std::uint16_t kBf16Nan = 0x7fc0;
inline constexpr std::uint16_t kBf16Infinity = 0x7f80;
inline constexpr std::uint16_t kBf16Largest = 0x7f7f;  ///< 3.3895e38
inline constexpr std::uint16_t kF16Nan = 0x7e00;
inline constexpr std::uint16_t kF16Infinity = 0x7c00;
inline constexpr std::uint16_t kF16Largest = 0x7bff;  ///< 65504

FERRULE_HD inline float bf16_to_f32(std::uint16_t bits) {
  return float_of(static_cast<std::uint32_t>(bits) << 16);
}

/// Values beyond the largest finite bf16 by half a unit become Inf.
FERRULE_HD inline std::uint16_t f32_to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & kMagnitudeMask) > kInfinityBits) return kBf16Nan;
  // Half of the dropped 16 bits, less one where the kept part is even: ties go to even.
  return static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

/// The same, but a finite value never becomes Inf.
FERRULE_HD inline std::uint16_t f32_to_bf16_saturating(float value) {
  const std::uint16_t rounded = f32_to_bf16(value);
  const bool overflow = (rounded & 0x7fffu) == kBf16Infinity && is_finite(value);
  return overflow ? static_cast<std::uint16_t>((rounded & 0x8000u) | kBf16Largest) : rounded;
}

/// The smallest bf16 that is not below `value`; value must be finite and not negative. May be Inf.
FERRULE_HD inline std::uint16_t f32_to_bf16_up(float value) {
  return static_cast<std::uint16_t>((bits_of(value) + 0xffffu) >> 16);
}

FERRULE_HD inline float f16_to_f32(std::uint16_t half) {
#if defined(__CUDA_ARCH__)  // one instruction, and the same but for the bits of a NaN
  float converted;
  asm("cvt.f32.f16 %0, %1;" : "=f"(converted) : "h"(half));
  return converted != converted ? canonical_nan() : converted;
#else
  const std::uint32_t sign = (half & 0x8000u) << 16;
  const std::uint32_t magnitude = half & 0x7fffu;
  if (magnitude >= kF16Infinity) {
    return magnitude > kF16Infinity ? canonical_nan() : float_of(sign | kInfinityBits);
  }
  if (magnitude < 0x0400u) {  // zero and denormals: a whole number of 2^-24, exact in fp32
    const float value = static_cast<float>(magnitude) * 0x1p-24f;
    return float_of(sign | bits_of(value));
  }
  return float_of(sign | ((magnitude << 13) + 0x38000000u));  // exponent bias 15 -> 127
#endif
}

/// Values of 65520 and more become Inf.
FERRULE_HD inline std::uint16_t f32_to_f16(float value) {
#if defined(__CUDA_ARCH__)
  std::uint16_t converted;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(converted) : "f"(value));
  return value != value ? kF16Nan : converted;
#else
  const std::uint32_t bits = bits_of(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits & kMagnitudeMask;
  if (magnitude > kInfinityBits) return kF16Nan;
  if (magnitude >= 0x477ff000u) return static_cast<std::uint16_t>(sign | kF16Infinity);
  if (magnitude < 0x38800000u) {
    // Below 2^-14 the result is a whole number of 2^-24, which is the unit in the last place of 0.5: one
    // addition rounds.
    const std::uint32_t shifted = bits_of(float_of(magnitude) + 0.5f);
    return static_cast<std::uint16_t>(sign | (shifted - 0x3f000000u));
  }
  const std::uint32_t rounded = magnitude + 0x0fffu + ((magnitude >> 13) & 1u);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000u) >> 13));
#endif
}

/// The same, but a finite value never becomes Inf.
FERRULE_HD inline std::uint16_t f32_to_f16_saturating(float value) {
  const std::uint16_t rounded = f32_to_f16(value);
  const bool overflow = (rounded & 0x7fffu) == kF16Infinity && is_finite(value);
  return overflow ? static_cast<std::uint16_t>((rounded & 0x8000u) | kF16Largest) : rounded;
}

}  // namespace ferrule::codec::format
