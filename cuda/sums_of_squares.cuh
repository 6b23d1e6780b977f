// Sums of squares of many tensors in one launch, for the norms that clipping needs.
//
// A thread block takes 4096 elements of one tensor and adds their squares in fp64, in an order that depends
// on nothing but the positions; its sum goes into scratch. The block that finds that it is the last of its
// tensor adds the sums, again by position. So the bits do not depend on which block that is. Traffic: the
// elements once.
#pragma once

#include "cuda/codec_kernels.hpp"
#include "cuda/elements.cuh"

namespace ferrule::cuda {

inline constexpr unsigned kSquareThreads = 128;
inline constexpr unsigned kSquareElements = 32 * kSquareThreads;
inline constexpr unsigned kMostSegments = 128;  ///< of a launch

struct SquaresCall {
  Segment segments[kMostSegments];
  std::uint64_t
      first_block[kMostSegments + 1];  ///< thread blocks of segment i: [first_block[i], first_block[i + 1])
  unsigned segment_count;
  double* squares;
  std::uint32_t* done;  ///< of each segment, blocks that have stored their sum; 0 before and after
  double* sums;         ///< of each block
};

/// The sum of `mine` over the block, the same in any order of arrival; in thread 0. `space` has a value a
/// warp.
FERRULE_DEVICE double add_up(double mine, double* space) {
  FERRULE_UNROLL
  for (int lanes = 16; lanes != 0; lanes /= 2) mine += __shfl_xor_sync(kWholeWarp, mine, lanes);
  if (lane_index() == 0) space[threadIdx.x / kWarpLanes] = mine;
  __syncthreads();
  double sum = 0;
  if (threadIdx.x == 0) {
    for (unsigned warp = 0; warp < kSquareThreads / kWarpLanes; ++warp) sum += space[warp];
  }
  return sum;
}

FERRULE_DEVICE unsigned segment_of(const SquaresCall& call, std::uint64_t block) {
  unsigned low = 0;
  unsigned high = call.segment_count;
  while (high - low > 1) {
    const unsigned middle = (low + high) / 2;
    if (call.first_block[middle] <= block) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

template <class Type>
FERRULE_DEVICE double squares_of_lane(const Segment& segment, std::size_t first) {
  const auto* data = static_cast<const typename Type::Storage*>(segment.data);
  const bool aligned = is_aligned<Type>(data);
  double sum = 0;
  FERRULE_UNROLL
  for (unsigned i = 0; i < kSquareElements / (4 * kSquareThreads); ++i) {
    const std::size_t at = first + 4 * (threadIdx.x + i * kSquareThreads);
    if (at >= segment.count) continue;
    const unsigned available = segment.count - at < 4 ? static_cast<unsigned>(segment.count - at) : 4;
    float values[4] = {0, 0, 0, 0};
    if (aligned && available == 4) {
      load4<Type>(data + at, values);
    } else {
      load_some<Type>(data + at, available, values);
    }
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) sum += static_cast<double>(values[k]) * static_cast<double>(values[k]);
  }
  return sum;
}

struct SquareSpace {
  double sums[kSquareThreads / kWarpLanes];
  unsigned is_last;
};

template <class Type>
__global__ void __launch_bounds__(kSquareThreads) add_squares(const __grid_constant__ SquaresCall call) {
  FERRULE_SHARED(SquareSpace, space);
  const unsigned number = segment_of(call, blockIdx.x);
  const std::uint64_t first = call.first_block[number];
  const std::uint64_t blocks = call.first_block[number + 1] - first;
  const std::size_t element = (blockIdx.x - first) * kSquareElements;
  const double sum = add_up(squares_of_lane<Type>(call.segments[number], element), space.sums);
  if (threadIdx.x == 0) {
    call.sums[blockIdx.x] = sum;
    __threadfence();
    space.is_last = atomicAdd(call.done + number, 1u) == blocks - 1 ? 1 : 0;
  }
  __syncthreads();
  if (space.is_last == 0) return;
  __threadfence();
  double mine = 0;
  for (std::uint64_t block = threadIdx.x; block < blocks; block += kSquareThreads) {
    mine += static_cast<const volatile double*>(call.sums)[first + block];
  }
  const double total = add_up(mine, space.sums);
  if (threadIdx.x != 0) return;
  call.squares[number] = total;
  call.done[number] = 0;
}

}  // namespace ferrule::cuda
