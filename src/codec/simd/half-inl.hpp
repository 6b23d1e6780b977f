// Loads and stores of unaligned wire bytes, and f16 / bf16 <-> f32, for kernel files (included once a
// target).
//
// The conversions give the same bits as codec/format/float16.hpp for every input but NaN; narrow_* expect
// NaNs to be canonical (0x7fc00000) and then agree for those too.
#if defined(FERRULE_CODEC_SIMD_HALF_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRULE_CODEC_SIMD_HALF_INL_
#undef FERRULE_CODEC_SIMD_HALF_INL_
#else
#define FERRULE_CODEC_SIMD_HALF_INL_
#endif

#include <hwy/highway.h>

#include <cstddef>
#include <cstdint>

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// The processor's own conversions (F16C and its successors) round to nearest even and keep denormals.
#undef FERRULE_SIMD_NATIVE_F16
#if HWY_ARCH_X86 && HWY_TARGET <= HWY_AVX2
#define FERRULE_SIMD_NATIVE_F16 1
#else
#define FERRULE_SIMD_NATIVE_F16 0
#endif

/// Through bytes, so that no pointer to a misaligned element is ever formed.
template <class D>
HWY_INLINE hn::VFromD<D> load_bytes(D d, const void* bytes) {
  const hn::Repartition<std::uint8_t, D> d8;
  return hn::BitCast(d, hn::LoadU(d8, static_cast<const std::uint8_t*>(bytes)));
}

template <class D>
HWY_INLINE void store_bytes(hn::VFromD<D> value, D /*d*/, void* bytes) {
  const hn::Repartition<std::uint8_t, D> d8;
  hn::StoreU(hn::BitCast(d8, value), d8, static_cast<std::uint8_t*>(bytes));
}

template <class DF>
using HalfTag = hn::Rebind<std::uint16_t, DF>;

template <class DF>
HWY_INLINE hn::VFromD<DF> widen_bf16(DF df, hn::VFromD<HalfTag<DF>> bits) {
  const hn::RebindToUnsigned<DF> du;
  return hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, bits)));
}

/// u32 lanes that hold 16-bit values, to u16 lanes.
template <class DF>
HWY_INLINE hn::VFromD<HalfTag<DF>> narrow_bits(DF /*df*/, hn::VFromD<hn::RebindToUnsigned<DF>> bits) {
  const hn::RebindToSigned<DF> di;
  return hn::DemoteTo(HalfTag<DF>(), hn::BitCast(di, bits));
}

/// f32 (no NaN but the canonical one) to bf16 bits in u32 lanes; nearest even, overflow to Inf.
template <class DF>
HWY_INLINE hn::VFromD<hn::RebindToUnsigned<DF>> round_bf16(DF /*df*/, hn::VFromD<DF> value) {
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::BitCast(du, value);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(du, 1U));
  return hn::ShiftRight<16>(hn::Add(bits, hn::Add(odd, hn::Set(du, 0x7fffU))));
}

template <class DF>
HWY_INLINE hn::VFromD<HalfTag<DF>> narrow_bf16(DF df, hn::VFromD<DF> value) {
  return narrow_bits(df, round_bf16(df, value));
}

#if FERRULE_SIMD_NATIVE_F16

template <class DF>
HWY_INLINE hn::VFromD<DF> widen_f16(DF df, hn::VFromD<HalfTag<DF>> bits) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::PromoteTo(df, hn::BitCast(dh, bits));
}

template <class DF>
HWY_INLINE hn::VFromD<HalfTag<DF>> narrow_f16(DF /*df*/, hn::VFromD<DF> value) {
  const hn::Rebind<hwy::float16_t, DF> dh;
  return hn::BitCast(HalfTag<DF>(), hn::DemoteTo(dh, value));
}

#else

/// The 15 bits of magnitude, moved to their place in f32 and scaled by 2^112 (exact, denormals too).
template <class DF>
HWY_INLINE hn::VFromD<DF> widen_f16(DF df, hn::VFromD<HalfTag<DF>> bits16) {
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::PromoteTo(du, bits16);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffU));
  const auto sign = hn::ShiftLeft<16>(hn::AndNot(hn::Set(du, 0x7fffU), bits));
  const auto moved = hn::ShiftLeft<13>(magnitude);
  const auto finite = hn::BitCast(du, hn::Mul(hn::BitCast(df, moved), hn::Set(df, 0x1p112F)));
  const auto special = hn::Or(moved, hn::Set(du, 0x7f800000U));
  const auto is_special = hn::Gt(magnitude, hn::Set(du, 0x7bffU));
  return hn::BitCast(df, hn::Or(sign, hn::IfThenElse(is_special, special, finite)));
}

template <class DF>
HWY_INLINE hn::VFromD<HalfTag<DF>> narrow_f16(DF df, hn::VFromD<DF> value) {
  const hn::RebindToUnsigned<DF> du;
  const auto bits = hn::BitCast(du, value);
  const auto magnitude = hn::And(bits, hn::Set(du, 0x7fffffffU));
  const auto sign = hn::ShiftRight<16>(hn::AndNot(hn::Set(du, 0x7fffffffU), bits));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), hn::Set(du, 1U));
  const auto rebias = hn::Set(du, 0xfffU - (112U << 23));
  const auto normal = hn::ShiftRight<13>(hn::Add(hn::Add(magnitude, rebias), odd));
  // 0.5 has the ulp of an f16 denormal: adding it lets the processor round there.
  const auto half = hn::Set(df, 0.5F);
  const auto denormal =
      hn::Sub(hn::BitCast(du, hn::Add(hn::BitCast(df, magnitude), half)), hn::BitCast(du, half));
  auto result = hn::IfThenElse(hn::Lt(magnitude, hn::Set(du, 0x38800000U)), denormal, normal);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x477fefffU)), hn::Set(du, 0x7c00U), result);
  result = hn::IfThenElse(hn::Gt(magnitude, hn::Set(du, 0x7f800000U)), hn::Set(du, 0x7e00U), result);
  return narrow_bits(df, hn::Or(sign, result));
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#endif  // FERRULE_CODEC_SIMD_HALF_INL_
