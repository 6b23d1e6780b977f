// 16-bit floats as codes: the arithmetic of one element.
#pragma once

#include "codec/format/float16.hpp"

namespace ferrule::codec::format {

/// bf16: no scale, each element by itself. Inf and NaN stay what they are; a finite value stays finite.
struct Bf16Cast {
  static constexpr unsigned kBits = 16;
  static constexpr std::size_t kHeaderBytes = 0;

  struct Scale {};

  FERRULE_HD static Scale scale_for(std::uint32_t) { return {}; }
  FERRULE_HD static std::uint32_t encode(float x, const Scale&, float) { return f32_to_bf16_saturating(x); }
  FERRULE_HD static float decode(std::uint32_t code, float) {
    const float value = bf16_to_f32(static_cast<std::uint16_t>(code));
    return value != value ? canonical_nan() : value;
  }
};

/// fp16 with a power-of-two scale per block that puts the block's largest magnitude into [2^15, 2^16): no
/// finite fp32 value overflows, and values 2^29 times smaller than the largest keep all 11 bits.
struct Fp16Cast {
  static constexpr unsigned kBits = 16;
  static constexpr std::size_t kHeaderBytes = 2;

  struct Scale {
    std::uint16_t wire = 0;  ///< bf16, a power of two from 2^-126 to 2^112
    float inverse = 0;
  };

  FERRULE_HD static Scale scale_for(std::uint32_t amax_bits) {
    if (amax_bits == 0) return {};
    // Exponent of the largest magnitude less 15, but never a denormal scale (fp16's own denormals reach the
    // smallest fp32 from there).
    const std::uint32_t exponent = amax_bits >> 23;
    const std::uint32_t biased = exponent > 16 ? exponent - 15 : 1;
    return {static_cast<std::uint16_t>(biased << 7), float_of((254 - biased) << 23)};
  }

  /// Only a magnitude in the last 2^-12 below a power of two saturates.
  FERRULE_HD static std::uint32_t encode(float x, const Scale& scale, float) {
    return f32_to_f16_saturating(x * scale.inverse);
  }

  FERRULE_HD static float decode(std::uint32_t code, float scale) {
    return f16_to_f32(static_cast<std::uint16_t>(code)) * scale;
  }
};

}  // namespace ferrule::codec::format
