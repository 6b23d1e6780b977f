// The emulator itself: what CUDA promises works, what CUDA leaves undefined is found and named.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "simt/vocabulary.hpp"

namespace simt {
namespace {

constexpr unsigned kAll = 0xffffffffu;

struct Numbers {
  unsigned values[64];
};

// A reversal through shared memory.
template <bool kWithBarrier>
void reverse(const unsigned* in, unsigned* out) {
  FERRULE_SHARED(Numbers, numbers);
  const unsigned i = threadIdx.x;
  numbers.values[i] = in[blockIdx.x * blockDim.x + i];
  if (kWithBarrier) __syncthreads();
  out[blockIdx.x * blockDim.x + i] = numbers.values[blockDim.x - 1 - i];
}

template <bool kWithBarrier>
bool reverses(std::uint64_t seed) {
  std::vector<unsigned> in(3 * 64);
  std::iota(in.begin(), in.end(), 1000u);
  std::vector<unsigned> out(in.size());
  run({3, 64}, [&] { reverse<kWithBarrier>(in.data(), out.data()); }, {seed});
  for (unsigned i = 0; i < out.size(); ++i) {
    if (out[i] != in[i / 64 * 64 + 63 - i % 64]) return false;
  }
  return true;
}

TEST(Simt, ABarrierMakesSharedMemoryVisible) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) EXPECT_TRUE(reverses<true>(seed)) << seed;
}

TEST(Simt, WithoutItNoScheduleIsRight) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) EXPECT_FALSE(reverses<false>(seed)) << seed;
}

// Written, read, written again: the second barrier keeps the second write from those that still read.
template <bool kWithBarrier>
void write_twice(unsigned* out) {
  FERRULE_SHARED(Numbers, numbers);
  const unsigned i = threadIdx.x;
  numbers.values[i] = i;
  __syncwarp();
  const unsigned first = numbers.values[31 - i];
  if (kWithBarrier) __syncwarp();
  numbers.values[i] = 100 + i;
  __syncwarp();
  out[i] = first * 1000 + numbers.values[31 - i];
}

template <bool kWithBarrier>
bool writes_twice(std::uint64_t seed) {
  std::vector<unsigned> out(32);
  run({1, 32}, [&] { write_twice<kWithBarrier>(out.data()); }, {seed});
  for (unsigned i = 0; i < 32; ++i) {
    if (out[i] != (31 - i) * 1000 + 131 - i) return false;
  }
  return true;
}

TEST(Simt, AMissingBarrierBeforeASecondWriteIsSeen) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    EXPECT_TRUE(writes_twice<true>(seed)) << seed;
    EXPECT_FALSE(writes_twice<false>(seed)) << seed;
  }
}

TEST(Simt, VotesShufflesAndReductions) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<unsigned> out(32);
    const auto kernel = [&] {
      const unsigned lane = threadIdx.x % 32;
      unsigned sum = lane;
      for (int lanes = 16; lanes != 0; lanes /= 2) sum += __shfl_xor_sync(kAll, sum, lanes);
      EXPECT_EQ(sum, 496u);
      EXPECT_EQ(__ballot_sync(kAll, lane % 3 == 0), 0x49249249u);
      EXPECT_EQ(__any_sync(kAll, lane == 7), 1);
      EXPECT_EQ(__all_sync(kAll, lane != 7), 0);
      EXPECT_EQ(__shfl_sync(kAll, 2.5 * lane, 5), 12.5);
      EXPECT_EQ(__shfl_sync(kAll, lane, 1, 8), lane / 8 * 8 + 1);
      EXPECT_EQ(__shfl_down_sync(kAll, lane, 4), lane + 4 < 32 ? lane + 4 : lane);
      EXPECT_EQ(__shfl_up_sync(kAll, lane, 4), lane >= 4 ? lane - 4 : lane);
      EXPECT_EQ(__reduce_max_sync(kAll, lane * 7 % 31), 30u);
      EXPECT_EQ(__reduce_add_sync(kAll, 3), 96u);
      // Half a warp by itself.
      if (lane < 16) out[lane] = __reduce_or_sync(0xffffu, 1u << lane);
      __syncwarp();
      if (lane >= 16) out[lane] = out[lane - 16];
    };
    EXPECT_EQ(fault_of({1, 32}, kernel, {seed}), "");
    EXPECT_TRUE(std::all_of(out.begin(), out.end(), [](unsigned value) { return value == 0xffffu; }));
  }
}

TEST(Simt, BlocksMeetInAtomicsAndTheLastIsFound) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    unsigned sum = 0;
    unsigned done = 0;
    unsigned last = 0;
    const auto kernel = [&] {
      atomicAdd(&sum, threadIdx.x + 1);
      const int arrived = __syncthreads_count(1);
      EXPECT_EQ(arrived, 40);
      if (threadIdx.x == 0 && atomicAdd(&done, 1u) == gridDim.x - 1) last = sum;
    };
    EXPECT_EQ(fault_of({7, 40}, kernel, {seed}), "");
    EXPECT_EQ(last, 7u * 820u);
  }
}

TEST(Simt, OrdersDifferBetweenSeedsAndNotWithinOne) {
  const auto order = [](std::uint64_t seed) {
    std::vector<unsigned> threads;
    run({3, 40}, [&] { threads.push_back(blockIdx.x * 64 + threadIdx.x); }, {seed});
    return threads;
  };
  EXPECT_EQ(order(5), order(5));
  std::vector<std::vector<unsigned>> orders;
  for (std::uint64_t seed = 0; seed < 20; ++seed) orders.push_back(order(seed));
  std::sort(orders.begin(), orders.end());
  EXPECT_GT(std::unique(orders.begin(), orders.end()) - orders.begin(), 10);
}

TEST(Simt, SharedMemoryIsPoisonedForEachBlock) {
  unsigned same = 0;
  const auto kernel = [&] {
    FERRULE_SHARED(Numbers, numbers);
    if (threadIdx.x != 0) return;
    for (const unsigned value : numbers.values) same += value == 17 ? 1 : 0;
    for (unsigned& value : numbers.values) value = 17;
  };
  EXPECT_EQ(fault_of({20, 2}, kernel), "");
  EXPECT_EQ(same, 0u);
}

void expect_fault(const Shape& shape, const std::function<void()>& kernel, const std::string& text) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const std::string fault = fault_of(shape, kernel, {seed, 100'000});
    EXPECT_NE(fault.find(text), std::string::npos) << "'" << fault << "' does not say '" << text << "'";
  }
}

TEST(SimtFaults, ADivergentBarrier) {
  expect_fault(
      {2, 64},
      [] {
        if (threadIdx.x != 13) __syncthreads();
      },
      "thread 13 has left the kernel");
  expect_fault(
      {1, 64},
      [] {
        if (threadIdx.x < 32) {
          __syncthreads();
        } else {
          __syncthreads();
        }
      },
      "a divergent barrier: some threads wait at simt_test.cpp");
}

TEST(SimtFaults, AMaskThatNamesALaneWhichHasLeft) {
  expect_fault(
      {1, 32},
      [] {
        if (threadIdx.x != 5) __syncwarp();
      },
      "names thread 5, which has left");
}

TEST(SimtFaults, AMaskThatLeavesOutItsOwnLane) {
  expect_fault(
      {1, 32}, [] { __ballot_sync(0xfffffffeu, 1); }, "does not name the lane that uses it, 0");
}

TEST(SimtFaults, DifferentMasks) {
  expect_fault(
      {1, 32}, [] { __syncwarp(threadIdx.x % 2 == 0 ? 0xffffffffu : 0xfffffffeu); }, "came with 0x");
}

TEST(SimtFaults, DifferentOperations) {
  const auto kernel = [] {
    if (threadIdx.x < 16) {
      __ballot_sync(kAll, 1);
    } else {
      __shfl_sync(kAll, 1, 0);
    }
  };
  expect_fault({1, 32}, kernel, " came to a ");
}

TEST(SimtFaults, ALaneThatDoesNotExist) {
  expect_fault(
      {1, 20}, [] { __syncwarp(); }, "names lane 20, which does not exist");
}

TEST(SimtFaults, AShuffleFromOutsideTheMask) {
  expect_fault(
      {1, 32},
      [] {
        if (threadIdx.x < 8) __shfl_sync(0xffu, 1, 9);
      },
      "reads lane 9, which is not in the mask");
}

TEST(SimtFaults, AWarpAndItsBlockWaitForEachOther) {
  const auto kernel = [] {
    if (threadIdx.x == 3) {
      __syncthreads();
    } else {
      __syncwarp();
    }
  };
  expect_fault({1, 32}, kernel, "thread 3 waits at the barrier");
}

TEST(SimtFaults, HalfAWarpThatNobodyJoins) {
  const auto kernel = [] {
    if (threadIdx.x >= 32) return __syncthreads();
    __syncwarp();
    if (threadIdx.x == 0) __syncthreads();
  };
  expect_fault({1, 64}, kernel, "a divergent barrier");
}

TEST(SimtFaults, ALoopThatWaitsForSomebodyWhoNeverCame) {
  unsigned flag = 0;
  expect_fault(
      {1, 2},
      [&] {
        while (atomicAdd(&flag, 0u) == 0) {
        }
      },
      "the launch did not end");
}

TEST(SimtFaults, AnExceptionOfAThread) {
  expect_fault(
      {1, 4},
      [] {
        if (threadIdx.x == 2) throw std::runtime_error("no more");
      },
      "thread 2 threw: no more");
}

TEST(Simt, WorksAfterAFault) {
  expect_fault(
      {1, 64},
      [] {
        if (threadIdx.x != 0) __syncthreads();
      },
      "divergent");
  EXPECT_TRUE(reverses<true>(1));
}

TEST(SimtLaunches, AHookGetsTheStreamAndDecidesWhen) {
  std::vector<std::pair<void*, std::function<void()>>> queue;
  set_launch_hook(
      [&](void* stream, std::function<void()> launch) { queue.emplace_back(stream, std::move(launch)); });
  int stream = 0;
  unsigned ran = 0;
  enqueue(&stream, {2, 32}, [&] { ++ran; });
  EXPECT_EQ(ran, 0u);
  ASSERT_EQ(queue.size(), 1u);
  EXPECT_EQ(queue[0].first, &stream);
  queue[0].second();
  EXPECT_EQ(ran, 64u);
  set_launch_hook({});
  enqueue(nullptr, {1, 32}, [&] {
    if (threadIdx.x != 0) __syncthreads();
  });
  const std::vector<std::string> faults = take_faults();
  ASSERT_EQ(faults.size(), 1u);
  EXPECT_TRUE(take_faults().empty());
}

}  // namespace
}  // namespace simt
