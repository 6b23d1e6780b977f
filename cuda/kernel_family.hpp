// A family of codecs with kernels: one .cuh with the kernels, one .cu that launches them, one word in
// FERRULE_CUDA_FAMILIES (CMakeLists.txt). The word is the name of a function <word>_kernels() that returns
// this.
#pragma once

#include "cuda/codec_kernels.hpp"
#include "ferrule/codec_spec.hpp"

namespace ferrule::cuda {

struct KernelFamily {
  /// Whether the family knows the codec; then its variant and parameters are in `found`, whose block and
  /// family are set already.
  bool (*find)(const CodecSpec& spec, CodecKernels& found);
  /// Arguments have been checked: 1 to kMostTerms terms, count > 0, a dtype and operation that the family
  /// takes.
  Status (*encode)(const CodecKernels& kernels, const codec::EncodeArgs& args, Stream stream);
  Status (*decode)(const CodecKernels& kernels, const codec::DecodeArgs& args, Stream stream,
                   std::uint32_t* not_finite);
  /// false: f32, f16 and bf16, sum and avg only.
  bool takes_everything = false;
};

}  // namespace ferrule::cuda
