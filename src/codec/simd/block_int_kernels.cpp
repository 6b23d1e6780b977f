// int4 and int8 with Highway.
#include "codec/simd/block_kernels.hpp"
#include "codec/simd/dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/simd/block_int_kernels.cpp"
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

std::size_t block_int_encode(const BlockShape& shape, const EncodeArgs& args) {
  if (shape.bits == 4) return encode_call<IntLanes<4>>(shape, args);
  if (shape.bits == 8) return encode_call<IntLanes<8>>(shape, args);
  return 0;
}

Decoded block_int_decode(const BlockShape& shape, const DecodeArgs& args) {
  if (shape.bits == 4) return decode_call<IntLanes<4>>(shape, args);
  if (shape.bits == 8) return decode_call<IntLanes<8>>(shape, args);
  return {};
}

#else

std::size_t block_int_encode(const BlockShape& /*shape*/, const EncodeArgs& /*args*/) { return 0; }
Decoded block_int_decode(const BlockShape& /*shape*/, const DecodeArgs& /*args*/) { return {}; }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferrule::codec::simd {

HWY_EXPORT(block_int_encode);
HWY_EXPORT(block_int_decode);

std::size_t encode_block_int(Target target, const BlockShape& shape, const EncodeArgs& args) {
  return FERRULE_SIMD_CALL(block_int_encode, target)(shape, args);
}

Decoded decode_block_int(Target target, const BlockShape& shape, const DecodeArgs& args) {
  return FERRULE_SIMD_CALL(block_int_decode, target)(shape, args);
}

}  // namespace ferrule::codec::simd
#endif
