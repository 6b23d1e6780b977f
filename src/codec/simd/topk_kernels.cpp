// Block top-k with Highway.
#include "codec/simd/block_kernels.hpp"
#include "codec/simd/dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/simd/topk_kernels.cpp"
#include <hwy/foreach_target.h>
// Highway wants this order.
#include <hwy/highway.h>

#if FERRULE_SIMD_HAS_VECTORS
#include "codec/simd/topk_call-inl.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

#if FERRULE_SIMD_HAS_VECTORS

std::size_t topk_encode(const BlockShape& shape, const EncodeArgs& args) {
  if (shape.bits == 8) return encode_topk_call<format::BlockInt<8>>(shape, args);
  return encode_topk_call<format::Bf16Cast>(shape, args);
}

Decoded topk_decode(const BlockShape& shape, const DecodeArgs& args) {
  if (shape.bits == 8) return decode_topk_call<format::BlockInt<8>>(shape, args);
  return decode_topk_call<format::Bf16Cast>(shape, args);
}

#else

std::size_t topk_encode(const BlockShape& /*shape*/, const EncodeArgs& /*args*/) { return 0; }
Decoded topk_decode(const BlockShape& /*shape*/, const DecodeArgs& /*args*/) { return {}; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferrule::codec::simd {

HWY_EXPORT(topk_encode);
HWY_EXPORT(topk_decode);

std::size_t encode_topk(Target target, const BlockShape& shape, const EncodeArgs& args) {
  return FERRULE_SIMD_CALL(topk_encode, target)(shape, args);
}

Decoded decode_topk(Target target, const BlockShape& shape, const DecodeArgs& args) {
  return FERRULE_SIMD_CALL(topk_decode, target)(shape, args);
}

}  // namespace ferrule::codec::simd
#endif
