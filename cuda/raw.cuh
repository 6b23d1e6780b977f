// The identity codec on the device: terms of plain elements combined in order (codec/raw_reduce.hpp has the
// rules), for every dtype and operation; and copies of bytes.
//
// A warp takes 1 KiB of each term. Terms and output may have any alignment. Traffic: (terms + 1) * bytes.
#pragma once

#include "codec/format/float16.hpp"
#include "codec/raw_element.hpp"
#include "cuda/terms.cuh"
#include "cuda/warp_bytes.cuh"

namespace ferrule::cuda {

inline constexpr unsigned kRawWarps = 4;  ///< of a thread block
inline constexpr unsigned kRawWords = 2;  ///< 16-byte words of each lane
inline constexpr unsigned kRawBytes = kRawWords * 16 * kWarpLanes;

struct RawCall {
  Terms terms;
  std::size_t bytes;
  ReduceOp op;
  std::uint32_t divisor;
  std::byte* out;
};

struct RawSpace {
  struct Warp {
    alignas(16) std::byte stage[kRawBytes + 32];
  };
  Warp warps[kRawWarps];
};

/// The elements of one 16-byte word, as they are accumulated.
template <class Element>
struct RawWord {
  using Storage = typename Element::Storage;
  static constexpr unsigned kCount = 16 / sizeof(Storage);
  typename Element::Value values[kCount];

  FERRULE_DEVICE void widen(const uint4& word) {
    Storage stored[kCount];
    memcpy(stored, &word, sizeof stored);
    FERRULE_UNROLL
    for (unsigned i = 0; i < kCount; ++i) values[i] = Element::widen(stored[i]);
  }
  FERRULE_DEVICE uint4 narrow(std::uint32_t divisor) const {
    Storage stored[kCount];
    FERRULE_UNROLL
    for (unsigned i = 0; i < kCount; ++i) {
      stored[i] = Element::narrow(codec::raw::finish(values[i], divisor));
    }
    uint4 word;
    memcpy(&word, stored, sizeof word);
    return word;
  }
};

template <class Element>
using RawSum = RawWord<Element>[kRawWords];

template <class Element, class Combine>
FERRULE_DEVICE void combine_words(RawSum<Element>& sum, const uint4 (&words)[kRawWords],
                                  const Combine& combine) {
  FERRULE_UNROLL
  for (unsigned w = 0; w < kRawWords; ++w) {
    RawWord<Element> addend;
    addend.widen(words[w]);
    FERRULE_UNROLL
    for (unsigned i = 0; i < addend.kCount; ++i) {
      sum[w].values[i] = combine(sum[w].values[i], addend.values[i]);
    }
  }
}

template <class Element>
FERRULE_DEVICE void combine_words(RawSum<Element>& sum, const uint4 (&words)[kRawWords], ReduceOp op) {
  using Value = typename Element::Value;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return combine_words<Element>(sum, words, [](Value a, Value b) { return codec::raw::add(a, b); });
    case ReduceOp::min:
      return combine_words<Element>(sum, words, [](Value a, Value b) { return codec::raw::least(a, b); });
    case ReduceOp::max:
      return combine_words<Element>(sum, words, [](Value a, Value b) { return codec::raw::greatest(a, b); });
    case ReduceOp::prod:
      return combine_words<Element>(sum, words, [](Value a, Value b) { return codec::raw::multiply(a, b); });
  }
}

/// The lane's words of a share, whatever its alignment. What lies beyond the share is anything.
FERRULE_DEVICE void lane_words(const Incoming<kRawWords>& incoming, const std::byte* from, unsigned bytes,
                               std::byte* stage, uint4 (&words)[kRawWords]) {
  const unsigned phase = bytes_past_16(from);
  if (phase == 0 && bytes == kRawBytes) {
    FERRULE_UNROLL
    for (unsigned w = 0; w < kRawWords; ++w) words[w] = incoming.words[w];
    return;
  }
  put_down(incoming, from, bytes, stage);
  __syncwarp();
  FERRULE_UNROLL
  for (unsigned w = 0; w < kRawWords; ++w) {
    const unsigned at = phase + 16 * (lane_index() + w * kWarpLanes);
    words[w] = make_uint4(word_at(stage, at), word_at(stage, at + 4), word_at(stage, at + 8),
                          word_at(stage, at + 12));
  }
  __syncwarp();  // the next share goes into the same stage
}

template <class Element>
__global__ void __launch_bounds__(kRawWarps* kWarpLanes) reduce_raw(const __grid_constant__ RawCall call) {
  FERRULE_SHARED(RawSpace, space);
  const unsigned warp = threadIdx.x / kWarpLanes;
  const std::size_t first = (std::size_t{blockIdx.x} * kRawWarps + warp) * kRawBytes;
  if (first >= call.bytes) return;
  const std::size_t left = call.bytes - first;
  const unsigned bytes = left < kRawBytes ? static_cast<unsigned>(left) : kRawBytes;
  std::byte* const stage = space.warps[warp].stage;
  const auto share = [&](unsigned term) {
    return static_cast<const std::byte*>(call.terms.data[term]) + first;
  };

  Incoming<kRawWords> next{};
  fetch(share(0), bytes, next);
  RawSum<Element> sum;
  for (unsigned term = 0; term < call.terms.count; ++term) {
    Incoming<kRawWords> current = next;
    if (term + 1 < call.terms.count) fetch(share(term + 1), bytes, next);
    uint4 words[kRawWords];
    lane_words(current, share(term), bytes, stage, words);
    if (term == 0) {
      FERRULE_UNROLL
      for (unsigned w = 0; w < kRawWords; ++w) sum[w].widen(words[w]);
    } else {
      combine_words<Element>(sum, words, call.op);
    }
  }
  std::byte* const to = call.out + first;
  const bool direct = bytes_past_16(to) == 0 && bytes == kRawBytes;
  std::byte* const target = direct ? to : stage;
  FERRULE_UNROLL
  for (unsigned w = 0; w < kRawWords; ++w) {
    *reinterpret_cast<uint4*>(target + 16 * (lane_index() + w * kWarpLanes)) = sum[w].narrow(call.divisor);
  }
  if (direct) return;
  __syncwarp();
  write_out(stage, 0, bytes, to);
}

/// `from` null: zeros.
struct CopyCall {
  const std::byte* from;
  std::size_t bytes;
  std::byte* to;
};

static __global__ void __launch_bounds__(kRawWarps* kWarpLanes)
    copy_bytes(const __grid_constant__ CopyCall call) {
  FERRULE_SHARED(RawSpace, space);
  const unsigned warp = threadIdx.x / kWarpLanes;
  const std::size_t first = (std::size_t{blockIdx.x} * kRawWarps + warp) * kRawBytes;
  if (first >= call.bytes) return;
  const std::size_t left = call.bytes - first;
  const unsigned bytes = left < kRawBytes ? static_cast<unsigned>(left) : kRawBytes;
  std::byte* const to = call.to + first;
  Incoming<kRawWords> incoming{};
  if (call.from == nullptr) return write_out(incoming, bytes, to);
  const std::byte* const from = call.from + first;
  fetch(from, bytes, incoming);
  if (bytes_past_16(from) == bytes_past_16(to)) return write_out(incoming, bytes, to);
  std::byte* const stage = space.warps[warp].stage;
  put_down(incoming, from, bytes, stage);
  __syncwarp();
  write_out(stage, bytes_past_16(from), bytes, to);
}

}  // namespace ferrule::cuda
