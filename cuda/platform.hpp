// The words of CUDA, and the one way to launch a kernel.
//
// Kernels live in .cuh files as templates. nvcc compiles them for the device; the tests compile the same
// files with the host's compiler against an emulation of these words (tests/cuda/simt). So a .cuh file
// includes this header, never one of CUDA's, uses no <<<>>>, and declares shared memory with FERRULE_SHARED.
#pragma once

#include <string>

#include "ferrule/status.hpp"

#if defined(__CUDACC__)
#include <cuda_runtime.h>
#define FERRULE_SHARED(Type, name) __shared__ Type name
#define FERRULE_UNROLL _Pragma("unroll")
#define FERRULE_ROLLED _Pragma("unroll 1")
#else
#include "simt/vocabulary.hpp"  // found by the include path of the tests
#define FERRULE_UNROLL
#define FERRULE_ROLLED
#endif

namespace ferrule::cuda {

inline constexpr unsigned kWarpLanes = 32;
inline constexpr unsigned kWholeWarp = 0xffffffffu;

/// How many blocks of how many threads.
struct Grid {
  unsigned blocks = 1;
  unsigned threads = 128;  ///< of a block
};

/// Enqueues `kernel(arguments...)` on `stream` (a cudaStream_t). Arguments are copied. A grid without blocks
/// is no launch.
template <class... Parameters, class... Arguments>
Status launch(void (*kernel)(Parameters...), Grid grid, void* stream, const Arguments&... arguments) {
  if (grid.blocks == 0) return {};
#if defined(__CUDACC__)
  kernel<<<grid.blocks, grid.threads, 0, static_cast<cudaStream_t>(stream)>>>(arguments...);
  const cudaError_t error = cudaGetLastError();
  if (error == cudaSuccess) return {};
  return Status(ErrorCode::system,
                std::string("CUDA refused to launch a kernel: ") + cudaGetErrorString(error));
#else
  simt::enqueue(stream, {grid.blocks, grid.threads}, [=] { kernel(arguments...); });
  return {};
#endif
}

}  // namespace ferrule::cuda
