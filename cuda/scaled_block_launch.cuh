// From a codec's arguments to a launch of the kernels in scaled_block.cuh.
#pragma once

#include <algorithm>

#include "cuda/kernel_family.hpp"
#include "cuda/scaled_block.cuh"

namespace ferrule::cuda {

/// A format without a scale has no blocks of its own: the largest makes the longest accesses.
template <class Element>
unsigned block_for(const CodecKernels& kernels) {
  return Element::kHeaderBytes == 0 ? static_cast<unsigned>(format::kLargestBlock)
                                    : static_cast<unsigned>(kernels.block);
}

inline Grid grid_for(std::size_t count, unsigned block) {
  const std::size_t of_block = std::size_t{blocks_of_tile(block)} * block * kWarps;
  return {static_cast<unsigned>((count + of_block - 1) / of_block), kWarps * kWarpLanes};
}

template <class Element>
Status encode_scaled(const CodecKernels& kernels, const codec::EncodeArgs& args, Stream stream) {
  EncodeCall call{};
  call.terms = make_terms(args.terms);
  call.count = args.count;
  call.dtype = args.dtype;
  call.block = block_for<Element>(kernels);
  call.out = args.out;
  call.before = args.feedback.before;
  call.after = args.feedback.after;
  call.add = args.feedback.add;
  call.rounded = args.final && args.dtype != DType::f32;
  call.divisor =
      call.rounded && args.op == ReduceOp::avg ? static_cast<float>(std::max(args.world, 1u)) : 1.0f;
  call.stochastic = kernels.stochastic;
  call.noise = args.noise;
  return launch(encode_blocks<Element>, grid_for(call.count, call.block), stream, call);
}

template <class Element>
Status decode_scaled(const CodecKernels& kernels, const codec::DecodeArgs& args, Stream stream,
                     std::uint32_t* not_finite) {
  DecodeCall call{};
  call.terms = make_terms(args.terms);
  call.count = args.count;
  call.dtype = args.dtype;
  call.block = block_for<Element>(kernels);
  call.out = args.out;
  call.not_finite = not_finite;
  const float divisor =
      args.finish && args.op == ReduceOp::avg ? static_cast<float>(std::max(args.world, 1u)) : 1.0f;
  // One encoded term is divided through its scale, as on the CPU.
  const bool by_scale = args.terms.size() == 1 && args.terms.front().kind == codec::Term::Kind::encoded;
  call.term_divisor = by_scale ? divisor : 1.0f;
  call.divisor = by_scale ? 1.0f : divisor;
  return launch(decode_blocks<Element>, grid_for(call.count, call.block), stream, call);
}

}  // namespace ferrule::cuda
