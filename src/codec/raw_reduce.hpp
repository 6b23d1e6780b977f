// The arithmetic of the identity codec: one pass over N terms of plain elements.
//
// Rules, the same for the scalar code and every SIMD target (bit for bit):
//  - terms are combined in order; f16 and bf16 in f32 with one rounding at the end, integers modulo 2^bits;
//  - min and max order -0 before +0, so they do not depend on the order of the terms;
//  - a NaN in any term makes the result NaN, and every NaN result is the quiet NaN of the format (0x7fc00000
//    for f32): processors disagree on sign and payload of NaN results, ranks must not;
//  - avg divides once, at the end: floats by the divisor in f32 (f64 for f64), integers truncate toward zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "codec/codec.hpp"

namespace ferrule::codec {

/// The terms' bytes and `out` may have any alignment; `out` may be one of the terms.
struct RawReduce {
  std::span<const Term> terms;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t first = 0;  ///< elements [first, count) are computed
  std::size_t count = 0;
  std::uint32_t divisor = 1;  ///< 1: none
  void* out = nullptr;
};

/// Plain C++: the specification, the tail of the SIMD kernels, and FERRULE_SIMD=scalar.
void raw_reduce_scalar(const RawReduce& reduce);

/// With the active SIMD target.
void raw_reduce(const RawReduce& reduce);

}  // namespace ferrule::codec
