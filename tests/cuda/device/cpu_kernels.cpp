// The kernels' interface, with the codecs of the CPU as kernels on the fake's streams: quick enough for every
// codec, algorithm and world. What the pipeline does with kernels is the same; the kernels themselves have
// tests of their own, and device_emulated_test runs the pipeline with them.
#include <cuda_runtime_api.h>

#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "control.hpp"
#include "cuda/codec_kernels.hpp"
#include "residual/residual.hpp"

namespace ferrule::cuda {

struct KernelFamily {
  std::shared_ptr<const codec::Codec> codec;  // the communicator's may be gone when a kernel runs
};

namespace {

Status launch(Stream stream, const char* name, std::function<void()> body) {
  const cudaError_t error =
      fake_cuda::enqueue_kernel(static_cast<cudaStream_t>(stream), name, std::move(body));
  if (error == cudaSuccess) return {};
  return Status(ErrorCode::system,
                std::string("CUDA refused to launch a kernel: ") + cudaGetErrorString(error));
}

template <class Args>
std::vector<codec::Term> copy_terms(const Args& args) {
  return {args.terms.begin(), args.terms.end()};
}

}  // namespace

Result<CodecKernels> find_kernels(const codec::Codec& codec) {
  static std::mutex mutex;
  static std::map<std::string, KernelFamily> families;
  const std::lock_guard lock(mutex);
  KernelFamily& family = families[codec.spec()];
  if (family.codec == nullptr) {
    auto made = codec::make_codec(codec.spec());
    FERRULE_RETURN_IF_ERROR(made.status());
    family.codec = std::move(made).value();
  }
  return CodecKernels{.family = &family, .block = codec.block()};
}

Status encode(const CodecKernels& kernels, const codec::EncodeArgs& args, Stream stream) {
  return launch(
      stream, "encode",
      [family = kernels.family, args = codec::EncodeArgs(args), terms = copy_terms(args)]() mutable {
        args.terms = terms;
        family->codec->encode(args);
      });
}

Status decode(const CodecKernels& kernels, const codec::DecodeArgs& args, Stream stream,
              std::uint32_t* not_finite) {
  return launch(stream, "decode",
                [family = kernels.family, args = codec::DecodeArgs(args), not_finite,
                 terms = copy_terms(args)]() mutable {
                  args.terms = terms;
                  if (!family->codec->decode(args) && not_finite != nullptr) *not_finite = 1;
                });
}

Status keep_where_not_finite(const KeepArgs& args, Stream stream) {
  return launch(stream, "keep", [args] {
    if (args.only_if != nullptr && *args.only_if == 0) return;
    residual::keep_where_not_finite(args.out, args.dtype, args.count, args.before, args.after);
  });
}

}  // namespace ferrule::cuda
