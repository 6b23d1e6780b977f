// The device of runs in stream order: CUDA's runtime and our kernels.
#pragma once

#include <map>
#include <mutex>
#include <string>

#include "cuda/codec_kernels.hpp"
#include "cuda/stream_runtime.hpp"

namespace ferrule::cuda {

class StreamKernels final : public StreamRuntime {
 public:
  Status check(const codec::Codec& codec, DType dtype, ReduceOp op) const override;
  Status encode(const codec::Codec& codec, std::span<const codec::EncodeArgs> calls, void* stream) override;
  Status decode(const codec::Codec& codec, std::span<const codec::DecodeArgs> calls,
                std::uint32_t* not_finite, void* stream) override;
  Status keep_where_not_finite(const Keep& keep, void* stream) override;

 private:
  /// Looked up once for each codec.
  Result<CodecKernels> kernels_of(const codec::Codec& codec) const;

  mutable std::mutex mutex_;
  mutable std::map<std::string, CodecKernels, std::less<>> known_;
};

}  // namespace ferrule::cuda
