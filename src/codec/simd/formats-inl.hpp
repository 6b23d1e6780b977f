// The formats of src/codec/format in lanes (included once a target). Each mirrors its scalar namesake
// operation by operation; where a step is left out, the comment says why the bits cannot differ.
//
// A format cuts a full block into groups of kVectors vectors; kChunk of them are worked on at once, in
// registers. Vector j of group g starts at element group_start(g) + j * stride(block).
#if defined(FERRULE_CODEC_SIMD_FORMATS_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRULE_CODEC_SIMD_FORMATS_INL_
#undef FERRULE_CODEC_SIMD_FORMATS_INL_
#else
#define FERRULE_CODEC_SIMD_FORMATS_INL_
#endif

#include "codec/format/block_int.hpp"
#include "codec/format/cast.hpp"
#include "codec/format/scaled_block.hpp"
#include "codec/simd/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

/// The scale of an encoded block: finite, or NaN where the block is NaN throughout.
HWY_INLINE float wire_scale(const std::byte* header) {
  const std::uint32_t bits = format::load_u16(header) * 0x10000U;
  const bool finite = (bits & format::kMagnitudeMask) < format::kInfinityBits;
  return format::float_of(finite ? bits : format::kCanonicalNanBits);
}

/// format::BlockInt of 2, 4 or 8 bits: one plane, so group g is word vector g, and vector j of it stands at
/// bit j * Width of the words.
template <unsigned Width>
struct IntLanes {
  static_assert(Width == 2 || Width == 4 || Width == 8);
  using Scalar = format::BlockInt<Width>;
  static constexpr std::size_t kHeaderBytes = 2;
  static constexpr bool kScaled = true;
  static constexpr std::size_t kVectors = 32 / Width;
  static constexpr std::size_t kChunk = kVectors < 8 ? kVectors : 8;
  /// A finite scale bounds what any code decodes to.
  static constexpr bool kFiniteByScale = true;
  static constexpr float kMagic = 12582912.0F;  // 1.5 * 2^23

  static bool takes(std::size_t block) { return block % (kVectors * hn::Lanes(Floats())) == 0; }
  static std::size_t groups(std::size_t block) { return block / (kVectors * hn::Lanes(Floats())); }
  static std::size_t stride(std::size_t block) { return block / kVectors; }
  static HWY_INLINE std::size_t group_start(std::size_t group) { return group * hn::Lanes(Floats()); }
  static HWY_INLINE std::size_t group_bytes() { return 4 * hn::Lanes(Floats()); }
  static std::size_t payload_bytes(std::size_t block) { return block / 8 * Width; }

  /// Whether no code can decode to Inf; false says only that it must be looked at.
  static HWY_INLINE bool surely_finite(const std::byte* header) {
    return (format::load_u16(header) & 0x7fffU) < ((255U - (Width - 1)) << 7);
  }

  template <std::size_t kVector>
  static HWY_INLINE FloatV decode(const std::byte* group, FloatV scale) {
    const auto words = load_bytes(Ints(), group);
    constexpr int kUp = static_cast<int>(32 - Width * (kVector + 1));
    const auto code = hn::ShiftRight<32 - Width>(hn::ShiftLeft<kUp>(words));
    return hn::Mul(hn::ConvertTo(Floats(), code), scale);
  }

  /// What the encode of a block needs, in all lanes.
  struct Encoder {
    FloatV inverse;
    FloatV delivered;  ///< scale of what ranks will hold
  };
  /// False: the scale is a denormal, which needs one more multiplication; the scalar code does that.
  static bool takes_scale(const typename Scalar::Scale& scale) { return scale.pre == 1.0F; }
  static HWY_INLINE Encoder encoder(const typename Scalar::Scale& scale, float divisor) {
    return {hn::Set(Floats(), scale.inverse), hn::Set(Floats(), format::bf16_to_f32(scale.wire) / divisor)};
  }

  /// The code as 1.5 * 2^23 + q: its low bits are q in two's complement. The clamp can be in floats, because
  /// a block that comes here holds no NaN.
  using Code = FloatV;
  template <bool kDither>
  static HWY_INLINE Code encode(FloatV x, const Encoder& encoder, const float* dither) {
    const Floats d;
    FloatV ratio = hn::Mul(x, encoder.inverse);
    if constexpr (kDither) ratio = hn::Add(ratio, hn::LoadU(d, dither));
    const FloatV rounded = hn::Add(ratio, hn::Set(d, kMagic));
    // To nearest, ratios exceed kMax by less than 2^-6 of it, even where the largest scale was cut down to
    // stay finite: narrow codes round back into their range by themselves.
    if constexpr (!kDither && Width <= 4) return rounded;
    constexpr auto kMax = static_cast<float>(Scalar::kMax);
    return hn::Max(hn::Min(rounded, hn::Set(d, kMagic + kMax)), hn::Set(d, kMagic - kMax));
  }
  static HWY_INLINE FloatV deliver(Code code, const Encoder& encoder, float /*divisor*/) {
    return hn::Mul(hn::Sub(code, hn::Set(Floats(), kMagic)), encoder.delivered);
  }

  /// Collects the codes of one group.
  struct Packer {
    WordV words;
    HWY_INLINE Packer() : words(hn::Zero(Words())) {}  // written out: an implicit one lacks the attributes
    template <std::size_t kVector>
    HWY_INLINE void put(Code code, std::byte* /*group*/) {
      const WordV bits = hn::And(hn::BitCast(Words(), code), hn::Set(Words(), (1U << Width) - 1U));
      words = hn::Or(words, hn::ShiftLeft<static_cast<int>(Width * kVector)>(bits));
    }
    HWY_INLINE void finish(std::byte* group) { store_bytes(words, Words(), group); }
  };
};

/// Geometry of the formats whose codes stand in the order of the elements.
struct InOrder {
  static constexpr std::size_t kVectors = 4;
  static constexpr std::size_t kChunk = 4;
  static constexpr bool kFiniteByScale = false;

  static bool takes(std::size_t block) { return block % (kVectors * hn::Lanes(Floats())) == 0; }
  static std::size_t groups(std::size_t block) { return block / (kVectors * hn::Lanes(Floats())); }
  static std::size_t stride(std::size_t /*block*/) { return hn::Lanes(Floats()); }
  static HWY_INLINE std::size_t group_start(std::size_t group) {
    return group * kVectors * hn::Lanes(Floats());
  }
  static HWY_INLINE std::size_t group_bytes() { return 2 * kVectors * hn::Lanes(Floats()); }
  static HWY_INLINE std::size_t vector_bytes() { return 2 * hn::Lanes(Floats()); }
  static std::size_t payload_bytes(std::size_t block) { return 2 * block; }
  static HWY_INLINE bool surely_finite(const std::byte* /*header*/) { return true; }
};

/// format::Bf16Cast.
struct Bf16Lanes : InOrder {
  using Scalar = format::Bf16Cast;
  static constexpr std::size_t kHeaderBytes = 0;
  static constexpr bool kScaled = false;

  template <std::size_t kVector>
  static HWY_INLINE FloatV decode(const std::byte* group, FloatV /*scale*/) {
    return widen_bf16(Floats(), load_bytes(Halves(), group + kVector * vector_bytes()));
  }

  struct Encoder {};
  static bool takes_scale(const Scalar::Scale& /*scale*/) { return true; }
  static HWY_INLINE Encoder encoder(const Scalar::Scale& /*scale*/, float /*divisor*/) { return {}; }

  /// bf16 bits in words. Finite values are capped just below where rounding would reach Inf.
  using Code = WordV;
  template <bool kDither>
  static HWY_INLINE Code encode(FloatV x, const Encoder& /*encoder*/, const float* /*dither*/) {
    const WordV size = magnitude(x);
    const WordV sign = hn::AndNot(hn::Set(Words(), format::kMagnitudeMask), hn::BitCast(Words(), x));
    const auto special = hn::Gt(hn::BitCast(Ints(), size), hn::Set(Ints(), 0x7f7fffff));
    const auto capped = hn::Min(hn::BitCast(Ints(), size), hn::Set(Ints(), 0x7f7f7fff));
    const FloatV finite = hn::BitCast(Floats(), hn::Or(sign, hn::BitCast(Words(), capped)));
    return round_bf16(Floats(), hn::IfThenElse(hn::RebindMask(Floats(), special), canonical(x), finite));
  }
  static HWY_INLINE FloatV deliver(Code code, const Encoder& /*encoder*/, float divisor) {
    const FloatV value = hn::BitCast(Floats(), hn::ShiftLeft<16>(code));
    return divisor == 1.0F ? value : hn::Div(value, hn::Set(Floats(), divisor));
  }

  struct Packer {
    template <std::size_t kVector>
    HWY_INLINE void put(Code code, std::byte* group) {
      store_bytes(narrow_bits(Floats(), code), Halves(), group + kVector * vector_bytes());
    }
    HWY_INLINE void finish(std::byte* /*group*/) {}
  };
};

/// format::Fp16Cast.
struct Fp16Lanes : InOrder {
  using Scalar = format::Fp16Cast;
  static constexpr std::size_t kHeaderBytes = 2;
  static constexpr bool kScaled = true;

  template <std::size_t kVector>
  static HWY_INLINE FloatV decode(const std::byte* group, FloatV scale) {
    const HalfV codes = load_bytes(Halves(), group + kVector * vector_bytes());
    return hn::Mul(widen_f16(Floats(), codes), scale);
  }

  struct Encoder {
    FloatV inverse;
    FloatV delivered;
  };
  static bool takes_scale(const Scalar::Scale& /*scale*/) { return true; }
  static HWY_INLINE Encoder encoder(const Scalar::Scale& scale, float divisor) {
    return {hn::Set(Floats(), scale.inverse), hn::Set(Floats(), format::bf16_to_f32(scale.wire) / divisor)};
  }

  using Code = HalfV;
  template <bool kDither>
  static HWY_INLINE Code encode(FloatV x, const Encoder& encoder, const float* /*dither*/) {
    const FloatV scaled = hn::Mul(x, encoder.inverse);
    const WordV sign = hn::AndNot(hn::Set(Words(), format::kMagnitudeMask), hn::BitCast(Words(), scaled));
    // The largest fp32 that rounds to 65504.
    const WordV capped =
        hn::BitCast(Words(), hn::Min(hn::BitCast(Ints(), magnitude(scaled)), hn::Set(Ints(), 0x477fefff)));
    return narrow_f16(Floats(), hn::BitCast(Floats(), hn::Or(sign, capped)));
  }
  static HWY_INLINE FloatV deliver(Code code, const Encoder& encoder, float /*divisor*/) {
    return hn::Mul(widen_f16(Floats(), code), encoder.delivered);
  }

  struct Packer {
    template <std::size_t kVector>
    HWY_INLINE void put(Code code, std::byte* group) {
      store_bytes(code, Halves(), group + kVector * vector_bytes());
    }
    HWY_INLINE void finish(std::byte* /*group*/) {}
  };
};

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#endif  // FERRULE_CODEC_SIMD_FORMATS_INL_
