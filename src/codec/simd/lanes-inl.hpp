// Vectors of fp32 for the block codecs' kernels: plain elements in and out, NaNs, noise (included once a
// target).
#if defined(FERRULE_CODEC_SIMD_LANES_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRULE_CODEC_SIMD_LANES_INL_
#undef FERRULE_CODEC_SIMD_LANES_INL_
#else
#define FERRULE_CODEC_SIMD_LANES_INL_
#endif

#include <cstdint>
#include <type_traits>
#include <utility>

#include "codec/format/noise.hpp"
#include "codec/simd/half-inl.hpp"
#include "ferrule/types.hpp"

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

using Floats = hn::ScalableTag<float>;
using FloatV = hn::VFromD<Floats>;
using Words = hn::RebindToUnsigned<Floats>;
using WordV = hn::VFromD<Words>;
using Ints = hn::RebindToSigned<Floats>;
using Halves = HalfTag<Floats>;
using HalfV = hn::VFromD<Halves>;

/// A lambda that holds vector code: it needs the target's attributes, and must vanish into its caller.
#define FERRULE_SIMD_LAMBDA HWY_ATTR __attribute__((always_inline))

/// body(0), body(1) ... with constants: arrays of vectors indexed by them stay in registers.
template <class Body, std::size_t... kIndex>
HWY_INLINE void unroll(std::index_sequence<kIndex...> /*indices*/, const Body& body) {
  (body(std::integral_constant<std::size_t, kIndex>()), ...);
}
template <std::size_t kCount, class Body>
HWY_INLINE void unroll(const Body& body) {
  unroll(std::make_index_sequence<kCount>(), body);
}

/// Magnitudes as integers order finite < Inf < NaN; a float maximum would depend on the order of NaNs.
HWY_INLINE WordV magnitude(FloatV value) {
  return hn::And(hn::BitCast(Words(), value), hn::Set(Words(), format::kMagnitudeMask));
}

HWY_INLINE WordV larger(WordV a, WordV b) {
  // As signed: magnitudes are positive, and every target has that maximum.
  return hn::BitCast(Words(), hn::Max(hn::BitCast(Ints(), a), hn::BitCast(Ints(), b)));
}

HWY_INLINE std::uint32_t largest_lane(WordV magnitudes) {
  return static_cast<std::uint32_t>(hn::GetLane(hn::MaxOfLanes(Ints(), hn::BitCast(Ints(), magnitudes))));
}

HWY_INLINE FloatV canonical(FloatV value) {
  const FloatV nan = hn::BitCast(Floats(), hn::Set(Words(), format::kCanonicalNanBits));
  return hn::IfThenElse(hn::IsNaN(value), nan, value);
}

/// Plain fp32 elements; a vector starts at element `index`.
struct F32Elements {
  using Stored = float;
  explicit F32Elements(DType /*dtype*/) {}
  HWY_INLINE FloatV load(const float* at) const { return hn::LoadU(Floats(), at); }
  HWY_INLINE void store(FloatV value, float* at) const { hn::StoreU(canonical(value), Floats(), at); }
  HWY_INLINE FloatV round(FloatV value) const { return value; }
};

/// Plain f16 or bf16 elements: one instance of the kernels for both, the choice costs little beside them.
struct HalfElements {
  using Stored = std::uint16_t;
  explicit HalfElements(DType dtype) : is_f16(dtype == DType::f16) {}
  HWY_INLINE FloatV widen(HalfV bits) const {
    return is_f16 ? widen_f16(Floats(), bits) : widen_bf16(Floats(), bits);
  }
  HWY_INLINE HalfV narrow(FloatV value) const {
    const FloatV clean = canonical(value);
    return is_f16 ? narrow_f16(Floats(), clean) : narrow_bf16(Floats(), clean);
  }
  HWY_INLINE FloatV load(const std::uint16_t* at) const { return widen(hn::LoadU(Halves(), at)); }
  HWY_INLINE void store(FloatV value, std::uint16_t* at) const { hn::StoreU(narrow(value), Halves(), at); }
  HWY_INLINE FloatV round(FloatV value) const { return widen(narrow(value)); }
  bool is_f16;
};

/// 32 random bits for each counter: format::NoiseStream::draw in lanes.
HWY_INLINE WordV draw(const format::NoiseStream& stream, WordV counter) {
  const Words d;
  WordV x = hn::Add(hn::Mul(counter, hn::Set(d, 0x9e3779b1U)), hn::Set(d, stream.k0));
  x = hn::Xor(x, hn::ShiftRight<16>(x));
  x = hn::Mul(x, hn::Set(d, 0x7feb352dU));
  x = hn::Xor(x, hn::ShiftRight<15>(x));
  x = hn::Add(x, hn::Set(d, stream.k1));
  x = hn::Mul(x, hn::Set(d, 0x846ca68bU));
  return hn::Xor(x, hn::ShiftRight<16>(x));
}

/// 16 random bits to a value in (-0.5, 0.5).
HWY_INLINE FloatV dither_of(WordV half) {
  const auto odd = hn::Sub(hn::BitCast(Ints(), hn::Add(half, half)), hn::Set(Ints(), 65535));
  return hn::Mul(hn::ConvertTo(Floats(), odd), hn::Set(Floats(), 0x1p-17F));
}

/// The dither of `count` elements (a multiple of 32) from `first_element` on, in order.
HWY_INLINE void fill_dither(std::uint64_t key, std::uint64_t first_element, std::size_t count,
                            float* dither) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto stream = format::NoiseStream::at(key, first_element);
  auto base = static_cast<std::uint32_t>((first_element >> 5) * 16);
  for (std::size_t group = 0; group < count; group += 32, base += 16) {
    for (std::size_t lane = 0; lane < 16; lane += lanes) {
      const WordV bits = draw(stream, hn::Iota(Words(), base + static_cast<std::uint32_t>(lane)));
      hn::StoreU(dither_of(hn::And(bits, hn::Set(Words(), 0xffffU))), Floats(), dither + group + lane);
      hn::StoreU(dither_of(hn::ShiftRight<16>(bits)), Floats(), dither + group + lane + 16);
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#endif  // FERRULE_CODEC_SIMD_LANES_INL_
