// int2 ... int8: launches by the bits of a code. In files of their own, because nvcc takes its time for each.
#pragma once

#include "cuda/kernel_family.hpp"

namespace ferrule::cuda {

using EncodeLaunch = Status (*)(const CodecKernels&, const codec::EncodeArgs&, Stream);
using DecodeLaunch = Status (*)(const CodecKernels&, const codec::DecodeArgs&, Stream, std::uint32_t*);

/// `bits` from 2 to 8.
EncodeLaunch low_encode(int bits);   // 2, 3, 4
EncodeLaunch high_encode(int bits);  // 5 ... 8
DecodeLaunch block_int_decode(int bits);

}  // namespace ferrule::cuda
