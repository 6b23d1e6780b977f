#include "cuda/stream_kernels.hpp"

#include <fmt/format.h>

namespace ferrule::cuda {

Result<CodecKernels> StreamKernels::kernels_of(const codec::Codec& codec) const {
  const std::lock_guard lock(mutex_);
  if (const auto found = known_.find(codec.spec()); found != known_.end()) return found->second;
  auto kernels = find_kernels(codec);
  if (kernels.ok()) known_.emplace(codec.spec(), *kernels);
  return kernels;
}

Status StreamKernels::check(const codec::Codec& codec, DType dtype, ReduceOp op) const {
  if (!codec.supports(dtype, op)) {
    return {ErrorCode::unsupported,
            fmt::format("codec {} does not take {} here", codec.spec(), dtype_name(dtype))};
  }
  return kernels_of(codec).status();
}

Status StreamKernels::encode(const codec::Codec& codec, std::span<const codec::EncodeArgs> calls,
                             void* stream) {
  auto kernels = kernels_of(codec);
  FERRULE_RETURN_IF_ERROR(kernels.status());
  for (const codec::EncodeArgs& call : calls) {
    FERRULE_RETURN_IF_ERROR(cuda::encode(*kernels, call, stream));
  }
  return {};
}

Status StreamKernels::decode(const codec::Codec& codec, std::span<const codec::DecodeArgs> calls,
                             std::uint32_t* not_finite, void* stream) {
  auto kernels = kernels_of(codec);
  FERRULE_RETURN_IF_ERROR(kernels.status());
  for (std::size_t i = 0; i < calls.size(); ++i) {
    FERRULE_RETURN_IF_ERROR(
        cuda::decode(*kernels, calls[i], stream, not_finite == nullptr ? nullptr : not_finite + i));
  }
  return {};
}

Status StreamKernels::keep_where_not_finite(const Keep& keep, void* stream) {
  return cuda::keep_where_not_finite(
      {keep.out, keep.dtype, keep.count, keep.before, keep.after, keep.only_if}, stream);
}

}  // namespace ferrule::cuda
