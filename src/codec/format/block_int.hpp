// Symmetric integers of 2 to 8 bits with one bf16 scale per block: the arithmetic of one element.
// docs/wire_format.md has the layout, docs/numerics.md the bounds.
#pragma once

#include "codec/format/float16.hpp"

namespace ferrule::codec::format {

/// A value x is sent as q = round(x / scale), -kMax <= q <= kMax, in two's complement: a lane decodes it with
/// two shifts and no mask, and an all-zero code is zero. The code -kMax - 1 is never written, but decodes.
template <unsigned Width>
struct BlockInt {
  static_assert(Width >= 2 && Width <= 8);
  static constexpr unsigned kBits = Width;
  static constexpr std::size_t kHeaderBytes = 2;
  static constexpr std::int32_t kMax = (1 << (Width - 1)) - 1;

  /// How a block is scaled: x / scale is computed as (x * pre) * inverse.
  struct Scale {
    std::uint16_t wire = 0;  ///< bf16
    float pre = 1;           ///< 1, except where 1 / scale would overflow; a power of two, so exact
    float inverse = 0;       ///< 1 / (scale * pre); 0 for a block of zeros
  };

  /// The largest bf16 whose product with kMax is finite.
  FERRULE_HD static std::uint16_t largest_scale() {
    return static_cast<std::uint16_t>(bits_of(0x1.fffffep127f / static_cast<float>(kMax)) >> 16);
  }

  /// The bf16 scale for a block whose largest magnitude has these bits (finite): amax / kMax rounded up, so
  /// that no ratio exceeds kMax.
  FERRULE_HD static std::uint16_t wire_scale(std::uint32_t amax_bits) {
    if (amax_bits == 0) return 0;
    const std::uint16_t up = f32_to_bf16_up(float_of(amax_bits) / static_cast<float>(kMax));
    if (up == 0) return 1;  // the division underflowed
    return up < largest_scale() ? up : largest_scale();
  }

  FERRULE_HD static Scale scale_for(std::uint32_t amax_bits) {
    Scale scale;
    scale.wire = wire_scale(amax_bits);
    if (scale.wire == 0) return scale;
    if (scale.wire < 0x0080) scale.pre = 0x1p64f;  // a denormal scale
    scale.inverse = 1.0f / (bf16_to_f32(scale.wire) * scale.pre);
    return scale;
  }

  /// dither: 0 for round to nearest, NoiseStream::dither() for stochastic. |x| <= the block's amax.
  FERRULE_HD static std::uint32_t encode(float x, const Scale& scale, float dither) {
    // Adding 1.5 * 2^23 leaves the nearest integer (ties to even) in the low bits: |ratio| is far below 2^22.
    const float ratio = (x * scale.pre) * scale.inverse + dither;
    const auto rounded = static_cast<std::int32_t>(bits_of(ratio + 12582912.0f)) - 0x4b400000;
    const std::int32_t above = rounded < kMax ? rounded : kMax;
    const std::int32_t q = above > -kMax ? above : -kMax;
    return static_cast<std::uint32_t>(q) & ((1u << Width) - 1u);
  }

  FERRULE_HD static float decode(std::uint32_t code, float scale) {
    const std::int32_t q = static_cast<std::int32_t>(code << (32 - Width)) >> (32 - Width);
    return static_cast<float>(q) * scale;
  }
};

}  // namespace ferrule::codec::format
