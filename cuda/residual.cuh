// Residuals beside a decode: where an output is NaN or Inf, nothing was delivered, and the residual stays.
//
// Reads 4 bytes (f16, bf16: 2) an element; before and after are touched only where an output is not finite.
#pragma once

#include "cuda/codec_kernels.hpp"
#include "cuda/elements.cuh"

namespace ferrule::cuda {

inline constexpr unsigned kKeepThreads = 256;
inline constexpr unsigned kKeepElements = 4 * kKeepThreads;  ///< of a thread block

template <class Type>
__global__ void __launch_bounds__(kKeepThreads) keep_residual(const __grid_constant__ KeepArgs args) {
  if (args.only_if != nullptr && *args.only_if == 0) return;
  const std::size_t first = std::size_t{blockIdx.x} * kKeepElements + 4 * threadIdx.x;
  if (first >= args.count) return;
  const std::size_t left = args.count - first;
  const unsigned available = left < 4 ? static_cast<unsigned>(left) : 4;
  const auto* at = static_cast<const typename Type::Storage*>(args.out) + first;
  float values[4] = {0, 0, 0, 0};
  if (available == 4 && is_aligned<Type>(args.out)) {
    load4<Type>(at, values);
  } else {
    load_some<Type>(at, available, values);
  }
  FERRULE_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    if (k < available && !format::is_finite(values[k])) args.after[first + k] = args.before[first + k];
  }
}

}  // namespace ferrule::cuda
