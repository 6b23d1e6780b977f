// int2 ... int8 on the device.
#include "cuda/block_int.hpp"

namespace ferrule::cuda {
namespace {

bool find(const CodecSpec& spec, CodecKernels& found) {
  const std::string& name = spec.name;
  if (name.size() != 4 || name.compare(0, 3, "int") != 0 || name[3] < '2' || name[3] > '8') return false;
  found.variant = name[3] - '0';
  const std::string* round = spec.find("round");
  found.stochastic = round != nullptr && *round == "stochastic";
  return true;
}

Status launch_encode(const CodecKernels& kernels, const codec::EncodeArgs& args, Stream stream) {
  const EncodeLaunch launch =
      kernels.variant <= 4 ? low_encode(kernels.variant) : high_encode(kernels.variant);
  return launch(kernels, args, stream);
}

Status launch_decode(const CodecKernels& kernels, const codec::DecodeArgs& args, Stream stream,
                     std::uint32_t* not_finite) {
  return block_int_decode(kernels.variant)(kernels, args, stream, not_finite);
}

}  // namespace

KernelFamily block_int_kernels() { return {find, launch_encode, launch_decode}; }

}  // namespace ferrule::cuda
