// Bytes of any alignment, moved by a warp in accesses of 16 bytes.
//
// Encoded bytes stand wherever a slot or a message begins, and a tile's share of them begins anywhere. So a
// warp brings its share into shared memory by the aligned 16-byte words that lie inside it, the few bytes at
// its edges one by one, and puts its own results there before it writes them out in the same way. Nothing
// outside the share is touched. Cost beside aligned accesses: one 16-byte store and load of shared memory for
// each 16 bytes.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/platform.hpp"

#define FERRULE_DEVICE __device__ __forceinline__

namespace ferrule::cuda {

FERRULE_DEVICE unsigned lane_index() { return threadIdx.x % kWarpLanes; }

/// Where [begin, begin + bytes) touches 16-byte words: `head` bytes, `words` whole ones, `tail` bytes.
struct ByteRange {
  unsigned head, words, tail;
};

FERRULE_DEVICE unsigned bytes_past_16(const void* at) {
  return static_cast<unsigned>(reinterpret_cast<std::uintptr_t>(at) & 15u);
}

FERRULE_DEVICE ByteRange byte_range(const void* begin, unsigned bytes) {
  const unsigned to_edge = (16u - bytes_past_16(begin)) & 15u;
  const unsigned head = to_edge < bytes ? to_edge : bytes;
  return {head, (bytes - head) / 16, (bytes - head) % 16};
}

/// A share on its way from global memory: up to 512 * kWords bytes. Its loads overlap with whatever comes
/// before the values are used.
template <unsigned kWords>
struct Incoming {
  uint4 words[kWords];
  unsigned edge;  ///< lanes 0..14 a byte of the head, lanes 16..30 one of the tail
};

template <unsigned kWords>
FERRULE_DEVICE void fetch(const std::byte* from, unsigned bytes, Incoming<kWords>& incoming) {
  const ByteRange range = byte_range(from, bytes);
  const unsigned lane = lane_index();
  incoming.edge = 0;
  FERRULE_UNROLL
  for (unsigned i = 0; i < kWords; ++i) {
    const unsigned word = lane + i * kWarpLanes;
    if (word < range.words) {
      incoming.words[i] = *reinterpret_cast<const uint4*>(from + range.head + 16 * word);
    }
  }
  if (lane < range.head) incoming.edge = static_cast<unsigned>(from[lane]);
  if (lane >= 16 && lane - 16 < range.tail) {
    incoming.edge = static_cast<unsigned>(from[range.head + 16 * range.words + lane - 16]);
  }
}

/// Writes what fetch(from, ...) has brought to `to`, which has the alignment of `from`.
template <unsigned kWords>
FERRULE_DEVICE void write_out(const Incoming<kWords>& incoming, unsigned bytes, std::byte* to) {
  const ByteRange range = byte_range(to, bytes);
  const unsigned lane = lane_index();
  FERRULE_UNROLL
  for (unsigned i = 0; i < kWords; ++i) {
    const unsigned word = lane + i * kWarpLanes;
    if (word < range.words) *reinterpret_cast<uint4*>(to + range.head + 16 * word) = incoming.words[i];
  }
  if (lane < range.head) to[lane] = static_cast<std::byte>(incoming.edge);
  if (lane >= 16 && lane - 16 < range.tail) {
    to[range.head + 16 * range.words + lane - 16] = static_cast<std::byte>(incoming.edge);
  }
}

/// Puts the share into `stage` (shared, 16-byte aligned, 16 bytes longer than the share): its first byte
/// stands at bytes_past_16(from). Others see it after a __syncwarp.
template <unsigned kWords>
FERRULE_DEVICE void put_down(const Incoming<kWords>& incoming, const std::byte* from, unsigned bytes,
                             std::byte* stage) {
  write_out(incoming, bytes, stage + bytes_past_16(from));
}

/// Four bytes from any offset of shared memory that is aligned to 4; reads the aligned words around them.
FERRULE_DEVICE std::uint32_t word_at(const std::byte* stage, unsigned offset) {
  const auto* words = reinterpret_cast<const std::uint32_t*>(stage) + offset / 4;
  if (offset % 4 == 0) return words[0];
  return __funnelshift_r(words[0], words[1], 8 * (offset % 4));
}

/// Writes `bytes` bytes of `stage`, from byte `phase` on, to global memory. All lanes may read them by now,
/// and the word behind them.
FERRULE_DEVICE void write_out(const std::byte* stage, unsigned phase, unsigned bytes, std::byte* to) {
  const ByteRange range = byte_range(to, bytes);
  const unsigned lane = lane_index();
  for (unsigned word = lane; word < range.words; word += kWarpLanes) {
    const unsigned at = phase + range.head + 16 * word;
    uint4 value;
    if (at % 16 == 0) {
      value = *reinterpret_cast<const uint4*>(stage + at);
    } else {
      value = make_uint4(word_at(stage, at), word_at(stage, at + 4), word_at(stage, at + 8),
                         word_at(stage, at + 12));
    }
    *reinterpret_cast<uint4*>(to + range.head + 16 * word) = value;
  }
  if (lane < range.head) to[lane] = stage[phase + lane];
  const unsigned tail = range.head + 16 * range.words;
  if (lane >= 16 && lane - 16 < range.tail) to[tail + lane - 16] = stage[phase + tail + lane - 16];
}

}  // namespace ferrule::cuda
