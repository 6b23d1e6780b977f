// From the arithmetic of one element to the encoding of one block.
//
// A block format has four members:
//   static constexpr std::size_t kHeaderBytes      fixed bytes per block, gathered before all payloads
//   static std::size_t payload_bytes(count, block) count <= block; full blocks have equal sizes. A format
//   that
//                                                  depends on BlockAt::kept takes it as a third argument
//   static void encode(const float* x, const BlockAt&, std::byte* header, std::byte* payload)
//   static bool decode(const std::byte* header, const std::byte* payload, const BlockAt&, float* out)
// A sparse format, whose blocks decode to zeros for the most part, may have a fifth:
//   static bool add(header, payload, const BlockAt&, float* x)   as decode, but adds to x what was sent;
//   elements
//                                                                that were not sent stay as they are
// encode must turn a block that it cannot represent (NaN, Inf) into one that decodes to NaN; decode takes any
// bytes and returns whether all values are finite.
#pragma once

#include "codec/format/float16.hpp"
#include "codec/format/noise.hpp"
#include "codec/format/planes.hpp"

namespace ferrule::codec::format {

/// One block of a call.
struct BlockAt {
  std::size_t count = 0;            ///< elements; less than block only in the last block
  std::size_t block = 0;            ///< elements of a full block
  float divisor = 1;                ///< decode: results are divided by it (the average)
  bool stochastic = false;          ///< encode
  NoiseStream noise;                ///< encode, stochastic only
  std::uint64_t first_element = 0;  ///< encode, stochastic only: index in the tensor
  std::size_t kept = 0;             ///< sparse formats: elements that a full block sends
};

/// Codes of an element format (BlockInt, Fp16Cast, Bf16Cast ...): kBits of 2 to 8 in planes, 16 in order;
/// with kHeaderBytes == 2 a bf16 scale, where Inf or NaN marks a block that is NaN throughout.
template <class Element>
struct ScaledBlock {
  static constexpr std::size_t kHeaderBytes = Element::kHeaderBytes;
  static constexpr bool kScaled = kHeaderBytes != 0;
  static constexpr bool kHalves = Element::kBits == 16;

  FERRULE_HD static std::size_t payload_bytes(std::size_t count, std::size_t) {
    return packed_bytes(count, Element::kBits);
  }

  FERRULE_HD static void encode(const float* x, const BlockAt& at, std::byte* header, std::byte* payload) {
    const std::uint32_t amax = largest_magnitude(x, at.count);
    if (kScaled && amax >= kInfinityBits) {
      store_u16(header, kBf16Nan);
      std::memset(payload, 0, payload_bytes(at.count, at.block));
      return;
    }
    const auto scale = Element::scale_for(amax);
    if constexpr (kScaled) store_u16(header, scale.wire);
    if constexpr (kHalves) {
      for (std::size_t i = 0; i < at.count; ++i) {
        store_u16(payload + 2 * i, Element::encode(x[i], scale, dither(at, i)));
      }
    } else {
      std::uint8_t codes[kLargestBlock];
      quantise(x, at, scale, codes);
      pack_codes(codes, at.count, at.block, Element::kBits, payload);
    }
  }

  FERRULE_HD static bool decode(const std::byte* header, const std::byte* payload, const BlockAt& at,
                                float* out) {
    float scale = 1;
    if constexpr (kScaled) {
      scale = bf16_to_f32(load_u16(header));
      if (!is_finite(scale)) {
        for (std::size_t i = 0; i < at.count; ++i) out[i] = canonical_nan();
        return at.count == 0;
      }
      scale /= at.divisor;
    }
    if constexpr (kHalves) {
      for (std::size_t i = 0; i < at.count; ++i) out[i] = Element::decode(load_u16(payload + 2 * i), scale);
    } else {
      std::uint8_t codes[kLargestBlock];
      unpack_codes(payload, at.count, at.block, Element::kBits, codes);
      for (std::size_t i = 0; i < at.count; ++i) out[i] = Element::decode(codes[i], scale);
    }
    if constexpr (!kScaled) divide(at, out);
    return largest_magnitude(out, at.count) < kInfinityBits;
  }

 private:
  FERRULE_HD static std::uint32_t largest_magnitude(const float* x, std::size_t count) {
    std::uint32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint32_t magnitude = magnitude_bits(x[i]);
      largest = magnitude > largest ? magnitude : largest;
    }
    return largest;
  }

  FERRULE_HD static float dither(const BlockAt& at, std::size_t i) {
    return at.stochastic ? at.noise.dither(at.first_element + i) : 0.0f;
  }

  template <class Scale>
  FERRULE_HD static void quantise(const float* x, const BlockAt& at, const Scale& scale,
                                  std::uint8_t* codes) {
    for (std::size_t i = 0; i < at.count; ++i) {
      codes[i] = static_cast<std::uint8_t>(Element::encode(x[i], scale, dither(at, i)));
    }
  }

  FERRULE_HD static void divide(const BlockAt& at, float* out) {
    if (at.divisor == 1.0f) return;
    for (std::size_t i = 0; i < at.count; ++i) out[i] /= at.divisor;
  }
};

}  // namespace ferrule::codec::format
