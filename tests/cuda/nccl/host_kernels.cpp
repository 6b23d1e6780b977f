// Kernels that are the codecs of the CPU, in stream order: what is wrong in a test with them is the order,
// not the arithmetic.
#include <cuda_runtime_api.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "control.hpp"
#include "cuda/nccl/device_world.hpp"
#include "cuda/stream_runtime.hpp"
#include "residual/residual.hpp"

namespace ferrule::testing {
namespace {

class HostKernels final : public cuda::StreamRuntime {
 public:
  Status check(const codec::Codec& codec, DType dtype, ReduceOp op) const override;
  Status encode(const codec::Codec& codec, std::span<const codec::EncodeArgs> calls, void* stream) override;
  Status decode(const codec::Codec& codec, std::span<const codec::DecodeArgs> calls,
                std::uint32_t* not_finite, void* stream) override;
  Status keep_where_not_finite(const Keep& keep, void* stream) override;
};

Status launch(void* stream, const char* name, std::function<void()> body) {
  const cudaError_t error =
      fake_cuda::enqueue_kernel(static_cast<cudaStream_t>(stream), name, std::move(body));
  if (error == cudaSuccess) return {};
  return {ErrorCode::system, std::string("launch: ") + cudaGetErrorString(error)};
}

/// Arguments with the terms that they point at.
template <class Args>
struct Owned {
  std::vector<codec::Term> terms;
  Args args;
};

template <class Args>
std::vector<Owned<Args>> own(std::span<const Args> calls) {
  std::vector<Owned<Args>> owned;
  for (const Args& call : calls) owned.push_back({{call.terms.begin(), call.terms.end()}, call});
  return owned;
}

/// A kernel needs no codec when it runs; ours must not need the caller's.
std::shared_ptr<const codec::Codec> kept(const codec::Codec& codec) {
  return std::move(codec::make_codec(codec.spec())).value();
}

Status HostKernels::check(const codec::Codec& codec, DType dtype, ReduceOp op) const {
  if (codec.supports(dtype, op)) return {};
  return {ErrorCode::unsupported, "no kernel for " + codec.spec()};
}

Status HostKernels::encode(const codec::Codec& codec, std::span<const codec::EncodeArgs> calls,
                           void* stream) {
  return launch(stream, "encode", [codec = kept(codec), owned = own(calls)]() mutable {
    for (auto& call : owned) {
      call.args.terms = call.terms;
      codec->encode(call.args);
    }
  });
}

Status HostKernels::decode(const codec::Codec& codec, std::span<const codec::DecodeArgs> calls,
                           std::uint32_t* not_finite, void* stream) {
  return launch(stream, "decode", [codec = kept(codec), not_finite, owned = own(calls)]() mutable {
    for (std::size_t i = 0; i < owned.size(); ++i) {
      owned[i].args.terms = owned[i].terms;
      const bool finite = codec->decode(owned[i].args);
      if (!finite && not_finite != nullptr) not_finite[i] = 1;
    }
  });
}

Status HostKernels::keep_where_not_finite(const Keep& keep, void* stream) {
  return launch(stream, "keep", [keep] {
    if (keep.only_if != nullptr && *keep.only_if == 0) return;
    residual::keep_where_not_finite(keep.out, keep.dtype, keep.count, keep.before, keep.after);
  });
}

}  // namespace

std::unique_ptr<executor::StreamDevice> make_device() { return std::make_unique<HostKernels>(); }

}  // namespace ferrule::testing
