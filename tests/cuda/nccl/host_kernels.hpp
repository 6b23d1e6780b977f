// A StreamDevice on the fake runtime whose kernels are the codecs of the CPU, in stream order: what is wrong
// in a test with it is the order, not the arithmetic.
#pragma once

#include "cuda/stream_runtime.hpp"

namespace ferrule::testing {

class HostKernels final : public cuda::StreamRuntime {
 public:
  Status check(const codec::Codec& codec, DType dtype, ReduceOp op) const override;
  Status encode(const codec::Codec& codec, std::span<const codec::EncodeArgs> calls, void* stream) override;
  Status decode(const codec::Codec& codec, std::span<const codec::DecodeArgs> calls,
                std::uint32_t* not_finite, void* stream) override;
  Status keep_where_not_finite(const Keep& keep, void* stream) override;
};

}  // namespace ferrule::testing
