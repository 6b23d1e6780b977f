// Finding the kernels of a codec, and checking the arguments of a call before it goes to the device.
#include "cuda/codec_kernels.hpp"

#include <fmt/format.h>

#include <vector>

#include "cuda/kernel_family.hpp"

namespace ferrule::cuda {

#include "kernel_table.inc"

namespace {

const std::vector<KernelFamily>& table() {
#define FERRULE_KERNELS(word) word##_kernels(),
  static const std::vector<KernelFamily> kFamilies = {FERRULE_REGISTERED_KERNELS(FERRULE_KERNELS)};
#undef FERRULE_KERNELS
  return kFamilies;
}

bool takes(const KernelFamily& family, DType dtype, ReduceOp op) {
  if (!is_valid(dtype) || !is_valid(op)) return false;
  return family.takes_everything || (is_compressible(dtype) && (op == ReduceOp::sum || op == ReduceOp::avg));
}

template <class Args>
Status check(const KernelFamily& family, const Args& args) {
  if (args.terms.empty()) return Status(ErrorCode::internal, "a kernel was asked to add up no terms");
  if (args.terms.size() > kMostTerms) {
    return Status(
        ErrorCode::unsupported,
        fmt::format("{} contributions in one sum on the device; at most {} are possible: choose the "
                    "algorithm ring, tree or hierarchical",
                    args.terms.size(), kMostTerms));
  }
  if (!takes(family, args.dtype, args.op)) {
    return Status(
        ErrorCode::unsupported,
        fmt::format("{} of {} on the device: a codec that compresses takes f32, f16 and bf16, sum and avg; "
                    "codec none takes everything",
                    op_name(args.op), dtype_name(args.dtype)));
  }
  return {};
}

}  // namespace

Result<CodecKernels> find_kernels(const codec::Codec& codec) {
  const codec::Codec& last = codec.levels().empty() ? codec : *codec.levels().back();
  const Result<CodecSpec> spec = CodecSpec::parse(last.spec());
  if (!spec) return spec.status();
  for (const KernelFamily& family : table()) {
    CodecKernels found;
    found.family = &family;
    found.block = last.block();
    if (family.find(*spec, found)) return found;
  }
  return Status(ErrorCode::unsupported,
                fmt::format("codec '{}' has no kernels for device memory: choose another codec, or pass host "
                            "memory",
                            last.spec()));
}

Status encode(const CodecKernels& kernels, const codec::EncodeArgs& args, Stream stream) {
  FERRULE_RETURN_IF_ERROR(check(*kernels.family, args));
  if (args.count == 0) return {};
  return kernels.family->encode(kernels, args, stream);
}

Status encode(const codec::Codec& codec, const codec::EncodeArgs& args, Stream stream) {
  const Result<CodecKernels> kernels = find_kernels(codec);
  if (!kernels) return kernels.status();
  return encode(*kernels, args, stream);
}

Status decode(const CodecKernels& kernels, const codec::DecodeArgs& args, Stream stream,
              std::uint32_t* not_finite) {
  FERRULE_RETURN_IF_ERROR(check(*kernels.family, args));
  if (args.count == 0) return {};
  return kernels.family->decode(kernels, args, stream, not_finite);
}

Status decode(const codec::Codec& codec, const codec::DecodeArgs& args, Stream stream,
              std::uint32_t* not_finite) {
  const Result<CodecKernels> kernels = find_kernels(codec);
  if (!kernels) return kernels.status();
  return decode(*kernels, args, stream, not_finite);
}

}  // namespace ferrule::cuda
