// "none" on the device, and copies.
#include <algorithm>

#include "cuda/kernel_family.hpp"
#include "cuda/raw.cuh"

namespace ferrule::cuda {
namespace {

using codec::format::bf16_to_f32;
using codec::format::f16_to_f32;
using codec::format::f32_to_bf16;
using codec::format::f32_to_f16;

Grid grid_for(std::size_t bytes) {
  constexpr std::size_t kOfBlock = std::size_t{kRawBytes} * kRawWarps;
  return {static_cast<unsigned>((bytes + kOfBlock - 1) / kOfBlock), kRawWarps * kWarpLanes};
}

template <class Element>
Status launch_raw(const RawCall& call, Stream stream) {
  return launch(reduce_raw<Element>, grid_for(call.bytes), stream, call);
}

Status launch_raw(DType dtype, const RawCall& call, Stream stream) {
  using namespace codec::raw;
  switch (dtype) {
    case DType::f32:
      return launch_raw<PlainElement<float>>(call, stream);
    case DType::f64:
      return launch_raw<PlainElement<double>>(call, stream);
    case DType::f16:
      return launch_raw<HalfElement<f16_to_f32, f32_to_f16>>(call, stream);
    case DType::bf16:
      return launch_raw<HalfElement<bf16_to_f32, f32_to_bf16>>(call, stream);
    case DType::i32:
      return launch_raw<PlainElement<std::int32_t>>(call, stream);
    case DType::i64:
      return launch_raw<PlainElement<std::int64_t>>(call, stream);
    case DType::u8:
      return launch_raw<PlainElement<std::uint8_t>>(call, stream);
  }
  return Status(ErrorCode::internal, "a kernel was asked for a dtype that does not exist");
}

template <class Args>
Status reduce(const Args& args, std::uint32_t divisor, void* out, Stream stream) {
  const std::size_t bytes = args.count * element_bytes(args.dtype);
  if (args.terms.size() == 1 && divisor == 1) return copy(args.terms.front().data, bytes, out, stream);
  RawCall call{};
  call.terms = make_terms(args.terms);
  call.bytes = bytes;
  call.op = args.op;
  call.divisor = divisor;
  call.out = static_cast<std::byte*>(out);
  return launch_raw(args.dtype, call, stream);
}

bool find(const CodecSpec& spec, CodecKernels&) { return spec.name == "none"; }

Status launch_encode(const CodecKernels&, const codec::EncodeArgs& args, Stream stream) {
  const bool divides = args.final && args.op == ReduceOp::avg;
  FERRULE_RETURN_IF_ERROR(reduce(args, divides ? std::max(args.world, 1u) : 1u, args.out, stream));
  // An exact encode leaves no error: what was delayed stays delayed.
  const codec::Feedback& feedback = args.feedback;
  if (feedback.after == nullptr) return {};
  return copy(feedback.before, args.count * sizeof(float), feedback.after, stream);
}

Status launch_decode(const CodecKernels&, const codec::DecodeArgs& args, Stream stream, std::uint32_t*) {
  const bool divides = args.finish && args.terms.size() > 1 && args.op == ReduceOp::avg;
  return reduce(args, divides ? std::max(args.world, 1u) : 1u, args.out, stream);
}

}  // namespace

Status copy(const void* from, std::size_t bytes, void* to, Stream stream) {
  if (from == to || bytes == 0) return {};
  const CopyCall call{static_cast<const std::byte*>(from), bytes, static_cast<std::byte*>(to)};
  return launch(copy_bytes, grid_for(bytes), stream, call);
}

Status clear(std::uint32_t* word, Stream stream) { return copy(nullptr, sizeof *word, word, stream); }

KernelFamily raw_kernels() { return {find, launch_encode, launch_decode, true}; }

}  // namespace ferrule::cuda
