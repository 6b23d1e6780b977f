// The whole-call kernels of the block codecs, by target. `target` must not be kScalar.
#pragma once

#include "codec/kernels.hpp"
#include "codec/simd/target.hpp"

namespace ferrule::codec::simd {

std::size_t encode_block_int(Target target, const BlockShape& shape, const EncodeArgs& args);
Decoded decode_block_int(Target target, const BlockShape& shape, const DecodeArgs& args);
std::size_t encode_cast(Target target, const BlockShape& shape, const EncodeArgs& args);
Decoded decode_topk(Target target, const BlockShape& shape, const DecodeArgs& args);
std::size_t encode_topk(Target target, const BlockShape& shape, const EncodeArgs& args);
Decoded decode_cast(Target target, const BlockShape& shape, const DecodeArgs& args);

}  // namespace ferrule::codec::simd
