// bf16 and fp16 with Highway.
#include "codec/simd/block_kernels.hpp"
#include "codec/simd/dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/simd/cast_kernels.cpp"
#include <hwy/foreach_target.h>
// Highway wants this order.
#include <hwy/highway.h>

#if FERRULE_SIMD_HAS_VECTORS
#include "codec/simd/block_call-inl.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

#if FERRULE_SIMD_HAS_VECTORS

std::size_t cast_encode(const BlockShape& shape, const EncodeArgs& args) {
  if (shape.kind == FormatKind::bf16) return encode_call<Bf16Lanes>(shape, args);
  return encode_call<Fp16Lanes>(shape, args);
}

Decoded cast_decode(const BlockShape& shape, const DecodeArgs& args) {
  if (shape.kind == FormatKind::bf16) return decode_call<Bf16Lanes>(shape, args);
  return decode_call<Fp16Lanes>(shape, args);
}

#else

std::size_t cast_encode(const BlockShape& /*shape*/, const EncodeArgs& /*args*/) { return 0; }
Decoded cast_decode(const BlockShape& /*shape*/, const DecodeArgs& /*args*/) { return {}; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferrule::codec::simd {

HWY_EXPORT(cast_encode);
HWY_EXPORT(cast_decode);

std::size_t encode_cast(Target target, const BlockShape& shape, const EncodeArgs& args) {
  return FERRULE_SIMD_CALL(cast_encode, target)(shape, args);
}

Decoded decode_cast(Target target, const BlockShape& shape, const DecodeArgs& args) {
  return FERRULE_SIMD_CALL(cast_decode, target)(shape, args);
}

}  // namespace ferrule::codec::simd
#endif
