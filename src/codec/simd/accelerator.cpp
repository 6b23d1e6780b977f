// Which formats have kernels. Each call looks at the active target, so that tests can change it.
#include "codec/simd/block_kernels.hpp"

namespace ferrule::codec {
namespace {

template <std::size_t (*Kernel)(simd::Target, const BlockShape&, const EncodeArgs&)>
std::size_t encode(const BlockShape& shape, const EncodeArgs& args) {
  const simd::Target target = simd::active_target();
  return target == simd::kScalar ? 0 : Kernel(target, shape, args);
}

template <Decoded (*Kernel)(simd::Target, const BlockShape&, const DecodeArgs&)>
Decoded decode(const BlockShape& shape, const DecodeArgs& args) {
  const simd::Target target = simd::active_target();
  return target == simd::kScalar ? Decoded{} : Kernel(target, shape, args);
}

}  // namespace

const Accelerator* find_accelerator(const BlockShape& shape) {
  static constexpr Accelerator kBlockInt = {
      encode<simd::encode_block_int>, decode<simd::decode_block_int>, {}};
  static constexpr Accelerator kCast = {encode<simd::encode_cast>, decode<simd::decode_cast>, {}};
  static constexpr Accelerator kTopK = {encode<simd::encode_topk>, decode<simd::decode_topk>, {}};
  switch (shape.kind) {
    case FormatKind::block_int:
      return &kBlockInt;
    case FormatKind::bf16:
    case FormatKind::fp16:
      return &kCast;
    case FormatKind::topk:
      return &kTopK;
    case FormatKind::other:
      break;
  }
  return nullptr;
}

}  // namespace ferrule::codec
