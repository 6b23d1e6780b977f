// The words of CUDA that Ferrule's kernels use, for the host's compiler. A kernel is a plain function here,
// which every thread of the block runs as a fiber (block.hpp). What a word is in CUDA is in NVIDIA's
// programming guide; missing words are added when a kernel needs them.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "simt/launch.hpp"

// NOLINTBEGIN: the names are CUDA's.
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define FERRULE_SHARED(Type, name)  \
  static const char name##_key = 0; \
  Type& name = *static_cast<Type*>(::simt::Block::running()->shared(&name##_key, sizeof(Type), alignof(Type)))

#define threadIdx (::simt::Index{::simt::Block::running()->thread(), 0, 0})
#define blockDim (::simt::Index{::simt::Block::running()->threads(), 1, 1})
#define blockIdx (::simt::Index{::simt::Block::running()->index(), 0, 0})
#define gridDim (::simt::Index{::simt::Block::running()->blocks(), 1, 1})

struct alignas(8) uint2 {
  unsigned x, y;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

namespace simt {

template <class T>
std::uint64_t to_bits(T value) {
  static_assert(sizeof(T) <= 8 && std::is_trivially_copyable_v<T>);
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

template <class T>
T from_bits(std::uint64_t bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

inline std::uint64_t meet(Meeting meeting, unsigned mask, Place place, std::uint64_t value = 0,
                          unsigned source_or_kind = 0) {
  Visit visit;
  visit.meeting = meeting;
  visit.mask = mask;
  visit.place = place;
  visit.value = value;
  (meeting == Meeting::shuffle ? visit.source : visit.kind) = source_or_kind;
  Block::running()->meet(visit);
  return visit.result;
}

template <class T>
T shuffle(unsigned mask, T value, unsigned source, Place place) {
  return from_bits<T>(meet(Meeting::shuffle, mask, place, to_bits(value), source));
}

inline unsigned lane() { return Block::running()->thread() % Block::kLanes; }

/// Atomics are where threads of different blocks meet: others may run before one.
template <class T, class Change>
T atomically(T* at, Change change) {
  if (Block::running()->random().below(4) == 0) Block::running()->yield();
  std::atomic_ref<T> word(*at);
  T old = word.load();
  while (!word.compare_exchange_weak(old, change(old))) {
  }
  return old;
}

}  // namespace simt

#define SIMT_PLACE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(SIMT_PLACE) {
  if (!::simt::is_removed({file, line})) ::simt::Block::running()->barrier({file, line}, false);
}
inline int __syncthreads_count(int vote, SIMT_PLACE) {
  return static_cast<int>(::simt::Block::running()->barrier({file, line}, vote != 0));
}
inline int __syncthreads_or(int vote, SIMT_PLACE) {
  return __syncthreads_count(vote, file, line) != 0 ? 1 : 0;
}
inline void __syncwarp(unsigned mask = 0xffffffffu, SIMT_PLACE) {
  if (!::simt::is_removed({file, line})) ::simt::meet(::simt::Meeting::sync, mask, {file, line});
}

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMT_PLACE) {
  const unsigned first = ::simt::lane() / static_cast<unsigned>(width) * static_cast<unsigned>(width);
  return ::simt::shuffle(mask, value, first + static_cast<unsigned>(source) % static_cast<unsigned>(width),
                         {file, line});
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, SIMT_PLACE) {
  return ::simt::shuffle(mask, value, ::simt::lane() ^ static_cast<unsigned>(lanes), {file, line});
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, SIMT_PLACE) {
  const unsigned lane = ::simt::lane();
  return ::simt::shuffle(mask, value, lane + delta < 32 ? lane + delta : lane, {file, line});
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, SIMT_PLACE) {
  const unsigned lane = ::simt::lane();
  return ::simt::shuffle(mask, value, lane >= delta ? lane - delta : lane, {file, line});
}

inline unsigned __ballot_sync(unsigned mask, int vote, SIMT_PLACE) {
  return static_cast<unsigned>(::simt::meet(::simt::Meeting::vote, mask, {file, line}, vote != 0 ? 1 : 0));
}
inline int __any_sync(unsigned mask, int vote, SIMT_PLACE) {
  return __ballot_sync(mask, vote, file, line) != 0 ? 1 : 0;
}
inline int __all_sync(unsigned mask, int vote, SIMT_PLACE) {
  return __ballot_sync(mask, vote, file, line) == mask ? 1 : 0;
}

inline unsigned __reduce_add_sync(unsigned mask, unsigned value, SIMT_PLACE) {
  return static_cast<unsigned>(::simt::meet(::simt::Meeting::reduce, mask, {file, line}, value, 0));
}
inline unsigned __reduce_min_sync(unsigned mask, unsigned value, SIMT_PLACE) {
  return static_cast<unsigned>(::simt::meet(::simt::Meeting::reduce, mask, {file, line}, value, 1));
}
inline unsigned __reduce_max_sync(unsigned mask, unsigned value, SIMT_PLACE) {
  return static_cast<unsigned>(::simt::meet(::simt::Meeting::reduce, mask, {file, line}, value, 2));
}
inline unsigned __reduce_and_sync(unsigned mask, unsigned value, SIMT_PLACE) {
  return static_cast<unsigned>(::simt::meet(::simt::Meeting::reduce, mask, {file, line}, value, 3));
}
inline unsigned __reduce_or_sync(unsigned mask, unsigned value, SIMT_PLACE) {
  return static_cast<unsigned>(::simt::meet(::simt::Meeting::reduce, mask, {file, line}, value, 4));
}
inline unsigned __reduce_xor_sync(unsigned mask, unsigned value, SIMT_PLACE) {
  return static_cast<unsigned>(::simt::meet(::simt::Meeting::reduce, mask, {file, line}, value, 5));
}

template <class T>
T atomicAdd(T* at, T value) {
  return ::simt::atomically(at, [=](T old) { return static_cast<T>(old + value); });
}
template <class T>
T atomicMax(T* at, T value) {
  return ::simt::atomically(at, [=](T old) { return old < value ? value : old; });
}
template <class T>
T atomicMin(T* at, T value) {
  return ::simt::atomically(at, [=](T old) { return value < old ? value : old; });
}
template <class T>
T atomicOr(T* at, T value) {
  return ::simt::atomically(at, [=](T old) { return static_cast<T>(old | value); });
}
template <class T>
T atomicExch(T* at, T value) {
  return ::simt::atomically(at, [=](T) { return value; });
}
template <class T>
T atomicCAS(T* at, T compare, T value) {
  return ::simt::atomically(at, [=](T old) { return old == compare ? value : old; });
}

inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() {}
template <class T>
T __ldg(const T* at) {
  return *at;
}

inline unsigned __funnelshift_r(unsigned low, unsigned high, unsigned shift) {
  const std::uint64_t both = (std::uint64_t{high} << 32) | low;
  return static_cast<unsigned>(both >> (shift & 31u));
}
inline int __popc(unsigned value) { return __builtin_popcount(value); }
inline int __clz(int value) { return value == 0 ? 32 : __builtin_clz(static_cast<unsigned>(value)); }
inline int __ffs(int value) { return __builtin_ffs(value); }
#undef SIMT_PLACE
// NOLINTEND
