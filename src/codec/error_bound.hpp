// How far a result may be from the exact one; derived in docs/numerics.md.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/codec.hpp"
#include "ferrule/types.hpp"

namespace ferrule::codec {

/// Largest absolute error that encode + decode of these elements may make. Elements that are not finite do
/// not count.
double encode_error_bound(const Codec& codec, const void* elements, std::size_t count, DType dtype);

/// A sum over `world` ranks, in which a contribution passes at most `encodes` encodes one after another.
struct SumBound {
  std::uint32_t encodes = 0;
  std::uint32_t world = 1;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
};

/// A codec and how often a contribution passes it.
struct CodecUse {
  const Codec* codec = nullptr;
  std::uint32_t encodes = 0;
};

/// The same for a sum whose contributions pass several codecs, in this order; `sum.encodes` is the number of
/// all.
double sum_error_bound(std::span<const CodecUse> uses, const SumBound& sum, double magnitude);

/// Largest absolute error of an element, where `magnitude` is the sum over ranks of the largest magnitude in
/// the element's block. Covers the codec's errors, the additions in fp32 (fp64 for f64) and the rounding of
/// the result.
double sum_error_bound(const Codec& codec, const SumBound& sum, double magnitude);

}  // namespace ferrule::codec
