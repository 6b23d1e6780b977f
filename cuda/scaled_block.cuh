// Encode and decode for every format::ScaledBlock: integers of 2 to 8 bits, bf16, fp16.
//
// Both are one kernel each, because terms make encode, hop and reduce the same thing, and decode and
// decode_add too (codec/codec.hpp). A warp takes a tile, sums the terms in fp32 registers in their order (the
// bytes of a term are loaded while the one before is added), and writes its result once.
//
// Traffic, for E elements of 4 bytes, W wire bytes each (int4, block 128: 0.516): encode E (4 + W); with
// residual E (12 + W); decode E (4 + W); decode_add E (8 + W); reduce of N, one of them plain, E (4 + N W).
#pragma once

#include "codec/format/scaled_block.hpp"
#include "cuda/codes.cuh"
#include "cuda/terms.cuh"

namespace ferrule::cuda {

/// Thread blocks that an SM shall hold: 16 warps, each with 4 KiB of loads in flight, leave 128 registers a
/// thread. Widths with planes of 2 and 1 bits want some 150: 12 warps, 168 registers. (With less they spill.)
template <unsigned kBits>
inline constexpr unsigned kBlocksOfSm = kHasThinPlanes<kBits> ? 3 : 4;

struct EncodeCall {
  Terms terms;
  std::size_t count;
  DType dtype;
  unsigned block;
  std::byte* out;
  const float* before;
  float* after;
  bool add;       ///< Feedback::add
  bool rounded;   ///< the error is that of an element of `dtype`
  float divisor;  ///< rounded: of the average; else 1
  bool stochastic;
  codec::Noise noise;
};

struct DecodeCall {
  Terms terms;
  std::size_t count;
  DType dtype;
  unsigned block;
  void* out;
  float term_divisor;  ///< of each encoded term
  float divisor;       ///< of the sum
  std::uint32_t* not_finite;
};

template <class Element>
struct BlockSpace {
  struct Warp {
    PackSpace<Element::kBits> pack;
    std::uint32_t largest[kWarpLanes];
  };
  Warp warps[kWarps];
};

/// Headers of all blocks stand before all payloads.
template <class Element>
struct Sections {
  std::size_t blocks;  ///< of the call

  FERRULE_DEVICE Sections(std::size_t count, unsigned block) : blocks((count + block - 1) / block) {}
  FERRULE_DEVICE std::size_t header(const Tile& tile) const {
    return (tile.first_block + tile.my_block) * Element::kHeaderBytes;
  }
  FERRULE_DEVICE std::size_t payload(const Tile& tile) const {
    return blocks * Element::kHeaderBytes + tile.first_block * (tile.block * Element::kBits / 8);
  }
};

/// One encoded term on its way.
template <class Element>
struct IncomingTerm {
  Incoming<PackSpace<Element::kBits>::kWords> payload;
  std::uint32_t header;  ///< of the lane's block

  FERRULE_DEVICE void fetch_from(const std::byte* data, const Sections<Element>& sections, const Tile& tile) {
    header = 0;
    if constexpr (Element::kHeaderBytes != 0) {
      if (tile.my_count != 0) header = format::load_u16(data + sections.header(tile));
    }
    fetch(data + sections.payload(tile), payload_bytes<Element::kBits>(tile), payload);
  }
};

/// What the codes of the lane's block are multiplied with; NaN for a block that is NaN throughout.
template <class Element>
FERRULE_DEVICE float decoded_scale(std::uint32_t header, float divisor) {
  if constexpr (Element::kHeaderBytes == 0) {
    return 1.0f;
  } else {
    const float scale = format::bf16_to_f32(static_cast<std::uint16_t>(header));
    return format::is_finite(scale) ? scale / divisor : format::canonical_nan();
  }
}

template <class Element>
FERRULE_DEVICE float decoded(std::uint32_t code, float scale, float divisor) {
  const float value = Element::decode(code, scale);
  if constexpr (Element::kHeaderBytes == 0) return divisor == 1.0f ? value : value / divisor;
  return value;
}

/// x += the term; returns whether a value was not finite.
template <class Element>
FERRULE_DEVICE bool add_term(const Codes<Element::kBits>& codes, float scale, float divisor, Values& x) {
  bool not_finite = false;
  FERRULE_UNROLL
  for (unsigned m = 0; m < kRows; ++m) {
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      const float value = decoded<Element>(codes.get(m, k), scale, divisor);
      not_finite = not_finite || !format::is_finite(value);
      x[m][k] += value;
    }
  }
  return not_finite;
}

template <class Element>
struct Sum {
  const Terms& terms;
  DType dtype;
  float term_divisor;
  Sections<Element> sections;
  PackSpace<Element::kBits>& space;

  FERRULE_DEVICE const std::byte* encoded(unsigned term) const {
    return static_cast<const std::byte*>(terms.data[term]);
  }

  /// x = the sum of the terms in their order. Returns whether an encoded one held a value that is not finite.
  FERRULE_DEVICE bool run(const Tile& tile, Values& x) const {
    start_sum(x);
    bool not_finite = false;
    IncomingTerm<Element> incoming{};
    const unsigned bytes = payload_bytes<Element::kBits>(tile);
    // A term is fetched while the one before it is added: number `next` and number next - 1.
    for (unsigned next = 0; next <= terms.count; ++next) {
      const bool is_encoded = next != 0 && !terms.is_plain(next - 1);
      float scale = 0;
      unsigned phase = 0;
      if (is_encoded) {
        const std::byte* const from = encoded(next - 1) + sections.payload(tile);
        put_down(incoming.payload, from, bytes, space.stage);
        scale = decoded_scale<Element>(incoming.header, term_divisor);
        phase = bytes_past_16(from);
      }
      if (next < terms.count && !terms.is_plain(next)) incoming.fetch_from(encoded(next), sections, tile);
      if (is_encoded) {
        __syncwarp();
        Codes<Element::kBits> codes;
        unpack<Element::kBits>(space.stage, phase, tile, codes);
        if (add_term<Element>(codes, scale, term_divisor, x)) not_finite = true;
        __syncwarp();  // the next term, or the result, goes into the same stage
      } else if (next != 0) {
        add_plain(terms.data[next - 1], dtype, tile, x);
      }
    }
    return not_finite;
  }
};

/// Bits of the largest magnitude of the lane's block.
FERRULE_DEVICE std::uint32_t largest_of_block(const Values& x, const Tile& tile, std::uint32_t* largest) {
  std::uint32_t mine = 0;
  FERRULE_UNROLL
  for (unsigned m = 0; m < kRows; ++m) {
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      const std::uint32_t magnitude = format::magnitude_bits(x[m][k]);
      mine = magnitude > mine ? magnitude : mine;
    }
  }
  largest[lane_index()] = mine;
  __syncwarp();
  const unsigned lanes = tile.block / kWarpLanes;
  const unsigned first = tile.my_block * lanes;
  for (unsigned lane = first; lane < first + lanes && lane < kWarpLanes; ++lane) {
    mine = largest[lane] > mine ? largest[lane] : mine;
  }
  return mine;
}

/// The residual of the lane's elements.
struct Residual {
  const EncodeCall& call;
  const Tile& tile;
  bool before_aligned, after_aligned;
  std::uint32_t undelivered = 0;  ///< a bit for each of the lane's elements

  FERRULE_DEVICE Residual(const EncodeCall& of, const Tile& in)
      : call(of),
        tile(in),
        before_aligned(is_aligned<F32>(of.before)),
        after_aligned(is_aligned<F32>(of.after)) {}

  FERRULE_DEVICE void add_before(unsigned m, float (&error)[4]) const {
    if (call.before == nullptr) {
      FERRULE_UNROLL
      for (unsigned k = 0; k < 4; ++k) error[k] += 0.0f;
      return;
    }
    float before[4] = {0, 0, 0, 0};
    const auto* at = reinterpret_cast<const std::uint32_t*>(call.before) + tile.first + tile.in_tile(m);
    if (before_aligned && tile.available(m) == 4) {
      load4<F32>(at, before);
    } else {
      load_some<F32>(at, tile.available(m), before);
    }
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) error[k] += before[k];
  }

  /// Row m: encoded are the values that were encoded, delivered what will be decoded.
  FERRULE_DEVICE void keep(unsigned m, const float (&encoded)[4], const float (&delivered)[4]) {
    const unsigned available = tile.available(m);
    float kept[4];
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) kept[k] = encoded[k] - delivered[k];
    if (!call.add) add_before(m, kept);
    std::uint32_t bad = 0;
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      if (k < available && !format::is_finite(kept[k])) bad |= 1u << k;
    }
    undelivered |= bad << (4 * m);
    auto* at = reinterpret_cast<std::uint32_t*>(call.after) + tile.first + tile.in_tile(m);
    if (after_aligned && available == 4 && bad == 0) return store4<F32>(at, kept);
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      if (k < available && ((bad >> k) & 1u) == 0) at[k] = format::bits_of(kept[k]);
    }
  }

  /// What was not delivered keeps its residual: after = before.
  FERRULE_DEVICE void finish() const {
    if (undelivered == 0 || call.before == call.after) return;
    for (unsigned i = 0; i < 32; ++i) {
      if (((undelivered >> i) & 1u) == 0) continue;
      const std::size_t at = tile.first + tile.in_tile(i / 4) + i % 4;
      call.after[at] = call.before != nullptr ? call.before[at] : 0.0f;
    }
  }
};

/// What every rank will hold of an encoded value, in units of the sum.
template <class Element>
FERRULE_DEVICE float delivered_value(std::uint32_t code, float scale, const EncodeCall& call) {
  const float value = decoded<Element>(code, scale, call.divisor);
  if (!call.rounded) return value;
  return rounded_to(call.dtype, value) * call.divisor;
}

/// Codes of the lane's values; writes the residual on the way.
template <class Element>
FERRULE_DEVICE void quantise(const Values& x, std::uint32_t largest, const EncodeCall& call, const Tile& tile,
                             Codes<Element::kBits>& codes) {
  const bool is_bad = Element::kHeaderBytes != 0 && largest >= format::kInfinityBits;
  const auto scale = Element::scale_for(is_bad ? 0u : largest);
  std::uint32_t header = 0;
  if constexpr (Element::kHeaderBytes != 0) {
    header = is_bad ? format::kBf16Nan : scale.wire;
    const std::size_t at = Sections<Element>(call.count, call.block).header(tile);
    if (tile.column == 0 && tile.my_count != 0) format::store_u16(call.out + at, header);
  }
  const std::uint64_t first = call.noise.first_element + tile.first + tile.my_block * tile.block;
  format::NoiseStream noise;
  if (call.stochastic) noise = format::NoiseStream::at(call.noise.key, first);
  const float multiplier = decoded_scale<Element>(header, call.divisor);
  Residual residual(call, tile);
  FERRULE_UNROLL
  for (unsigned m = 0; m < kRows; ++m) {
    float delivered[4];
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      const float dither = call.stochastic ? noise.dither(first + tile.element(m) + k) : 0.0f;
      const std::uint32_t code = is_bad ? 0u : Element::encode(x[m][k], scale, dither);
      codes.put(m, k, code);
      delivered[k] = delivered_value<Element>(code, multiplier, call);
    }
    if (call.after != nullptr && tile.available(m) != 0) residual.keep(m, x[m], delivered);
  }
  residual.finish();
}

template <class Element>
__global__ void __launch_bounds__(kWarps* kWarpLanes, kBlocksOfSm<Element::kBits>)
    encode_blocks(const __grid_constant__ EncodeCall call) {
  FERRULE_SHARED(BlockSpace<Element>, space);
  const Tile tile = tile_of_warp(call.count, call.block);
  if (tile.count == 0) return;
  auto& mine = space.warps[threadIdx.x / kWarpLanes];
  const Sections<Element> sections(call.count, call.block);
  Values x;
  const Sum<Element> sum{call.terms, call.dtype, 1.0f, sections, mine.pack};
  static_cast<void>(sum.run(tile, x));
  if (call.add && call.before != nullptr) add_elements<F32>(call.before, tile, x);
  std::uint32_t largest = 0;
  if constexpr (Element::kHeaderBytes != 0) largest = largest_of_block(x, tile, mine.largest);
  Codes<Element::kBits> codes;
  quantise<Element>(x, largest, call, tile, codes);
  pack<Element::kBits>(codes, tile, mine.pack);
  __syncwarp();
  write_out(mine.pack.stage, 0, payload_bytes<Element::kBits>(tile), call.out + sections.payload(tile));
}

template <class Element>
__global__ void __launch_bounds__(kWarps* kWarpLanes, kBlocksOfSm<Element::kBits>)
    decode_blocks(const __grid_constant__ DecodeCall call) {
  FERRULE_SHARED(BlockSpace<Element>, space);
  const Tile tile = tile_of_warp(call.count, call.block);
  if (tile.count == 0) return;
  auto& mine = space.warps[threadIdx.x / kWarpLanes];
  Values x;
  const Sum<Element> sum{call.terms, call.dtype, call.term_divisor, {call.count, call.block}, mine.pack};
  const bool not_finite = sum.run(tile, x);
  if (call.divisor != 1.0f) {
    for_each_row_rolled(x, [&](unsigned, float(&row)[4]) {
      FERRULE_UNROLL
      for (unsigned k = 0; k < 4; ++k) row[k] /= call.divisor;
    });
  }
  store_plain(x, call.dtype, tile, call.out);
  if (call.not_finite == nullptr) return;
  const bool any = __any_sync(kWholeWarp, not_finite) != 0;
  if (any && lane_index() == 0) atomicOr(call.not_finite, 1u);
}

}  // namespace ferrule::cuda
