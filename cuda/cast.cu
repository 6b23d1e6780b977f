// bf16 and fp16 on the device.
#include "codec/format/cast.hpp"
#include "cuda/scaled_block_launch.cuh"

namespace ferrule::cuda {
namespace {

bool find(const CodecSpec& spec, CodecKernels& found) {
  found.variant = spec.name == "bf16" ? 0 : 1;
  return spec.name == "bf16" || spec.name == "fp16";
}

Status launch_encode(const CodecKernels& kernels, const codec::EncodeArgs& args, Stream stream) {
  return kernels.variant == 0 ? encode_scaled<format::Bf16Cast>(kernels, args, stream)
                              : encode_scaled<format::Fp16Cast>(kernels, args, stream);
}

Status launch_decode(const CodecKernels& kernels, const codec::DecodeArgs& args, Stream stream,
                     std::uint32_t* not_finite) {
  return kernels.variant == 0 ? decode_scaled<format::Bf16Cast>(kernels, args, stream, not_finite)
                              : decode_scaled<format::Fp16Cast>(kernels, args, stream, not_finite);
}

}  // namespace

KernelFamily cast_kernels() { return {find, launch_encode, launch_decode}; }

}  // namespace ferrule::cuda
