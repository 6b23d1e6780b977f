// The codes of a lane's 32 elements, and how they stand in the payload of a block (codec/format/planes.hpp).
//
// In a full block element i of a plane of p bits stands in word i % L at bit p * (i / L), L = B * p / 32. A
// lane holds the elements i = m * B / 8 + c. So, with s = c / L,
//   p = 8  word (m % 2) * B / 8 + c, byte m / 2: words of the lane's own
//   p = 4  word c, nibble m: a word of the lane's own
//   p < 4  word c % L, bit 4 m + p s: columns c, c + L, c + 2 L ... meet in one word
// Codes are kept in that shape: one word a column, a nibble for each m ("low"; the bits above the fourth are
// "high"). Only planes of 2 and 1 bits are exchanged between lanes, through shared memory.
#pragma once

#include "codec/format/planes.hpp"
#include "cuda/tile.cuh"

namespace ferrule::cuda {

/// Codes of 2 to 7 bits.
template <unsigned kBits>
struct Codes {
  static constexpr bool kHasHigh = kBits > 4;
  std::uint32_t low[4] = {0, 0, 0, 0};
  std::uint32_t high[4] = {0, 0, 0, 0};

  FERRULE_DEVICE void put(unsigned m, unsigned k, std::uint32_t code) {
    low[k] |= (code & 15u) << (4 * m);
    if constexpr (kHasHigh) high[k] |= (code >> 4) << (4 * m);
  }
  FERRULE_DEVICE std::uint32_t get(unsigned m, unsigned k) const {
    std::uint32_t code = (low[k] >> (4 * m)) & 15u;
    if constexpr (kHasHigh) code |= ((high[k] >> (4 * m)) & 15u) << 4;
    return code;
  }
  /// The columns that hold the planes below 4 bits.
  FERRULE_DEVICE const std::uint32_t (&columns() const)[4] {
    if constexpr (kHasHigh) return high;
    return low;
  }
};

template <>
struct Codes<8> {
  std::uint32_t words[2][4] = {{0, 0, 0, 0}, {0, 0, 0, 0}};

  FERRULE_DEVICE void put(unsigned m, unsigned k, std::uint32_t code) {
    words[m % 2][k] |= code << (8 * (m / 2));
  }
  FERRULE_DEVICE std::uint32_t get(unsigned m, unsigned k) const {
    return (words[m % 2][k] >> (8 * (m / 2))) & 255u;
  }
};

/// 16-bit codes stand in order.
template <>
struct Codes<16> {
  std::uint32_t pairs[kRows][2] = {};

  FERRULE_DEVICE void put(unsigned m, unsigned k, std::uint32_t code) {
    pairs[m][k / 2] |= code << (16 * (k % 2));
  }
  FERRULE_DEVICE std::uint32_t get(unsigned m, unsigned k) const {
    return (pairs[m][k / 2] >> (16 * (k % 2))) & 0xffffu;
  }
};

/// A plane of 1 or 2 bits.
struct ThinPlane {
  unsigned bits;
  unsigned nibble_shift;  ///< of the plane's bits within a nibble of columns()
  unsigned words;         ///< L
  unsigned offset;        ///< bytes within the block's payload

  FERRULE_DEVICE std::uint32_t mask() const { return bits == 2 ? 0x33333333u : 0x11111111u; }
};

/// Calls visit(plane) for the planes of 2 and 1 bits.
template <unsigned kBits, class Visitor>
FERRULE_DEVICE void for_each_thin_plane(unsigned block, const Visitor& visit) {
  unsigned shift = kBits & 4u;
  FERRULE_UNROLL
  for (unsigned bits = 2; bits != 0; bits /= 2) {
    if ((kBits & bits) == 0) continue;
    visit(ThinPlane{bits, shift % 4, block * bits / 32, block * shift / 8});
    shift += bits;
  }
}

template <unsigned kBits>
inline constexpr bool kHasThinPlanes = kBits < 8 && (kBits & 3u) != 0;

/// Shared memory of one warp.
template <unsigned kBits>
struct PackSpace {
  static constexpr unsigned kWords = (kTileElements * kBits / 8 + 511) / 512;  ///< of Incoming
  /// A tile's payload at any phase of 16, and the word beyond that word_at reads.
  alignas(16) std::byte stage[kTileElements * kBits / 8 + 32];
  std::uint32_t columns[kHasThinPlanes<kBits> ? 4 * kWarpLanes : 1];
  std::uint8_t tail[kBits == 16 ? 4 : kTileElements];  ///< codes of the block that is not full
};

/// Bytes of the tile's payload.
template <unsigned kBits>
FERRULE_DEVICE unsigned payload_bytes(const Tile& tile) {
  return tile.full_blocks * (tile.block * kBits / 8) + (tile.tail * kBits + 7) / 8;
}

FERRULE_DEVICE void put_word(std::byte* stage, unsigned offset, std::uint32_t word) {
  *reinterpret_cast<std::uint32_t*>(stage + offset) = word;
}

template <unsigned kBits>
FERRULE_DEVICE void pack_thin_planes(const Tile& tile, PackSpace<kBits>& space) {
  for_each_thin_plane<kBits>(tile.block, [&](const ThinPlane& plane) {
    for (unsigned n = lane_index(); n < tile.full_blocks * plane.words; n += kWarpLanes) {
      const unsigned block = n / plane.words;
      const unsigned word = n % plane.words;
      const std::uint32_t* column = space.columns + block * tile.row_stride() + word;
      std::uint32_t bits = 0;
      for (unsigned s = 0; s < 4 / plane.bits; ++s) {
        bits |= ((column[s * plane.words] >> plane.nibble_shift) & plane.mask()) << (plane.bits * s);
      }
      put_word(space.stage, block * (tile.block * kBits / 8) + plane.offset + 4 * word, bits);
    }
  });
}

/// The block that is not full is one string of bits. One such block a call: no need for speed.
template <unsigned kBits>
FERRULE_DEVICE void pack_tail(const Tile& tile, PackSpace<kBits>& space) {
  std::byte* const out = space.stage + tile.full_blocks * (tile.block * kBits / 8);
  for (unsigned byte = lane_index(); byte < (tile.tail * kBits + 7) / 8; byte += kWarpLanes) {
    std::uint32_t bits = 0;
    for (unsigned i = 8 * byte / kBits; i < tile.tail && i * kBits < 8 * byte + 8; ++i) {
      const int shift = static_cast<int>(i * kBits) - static_cast<int>(8 * byte);
      const std::uint32_t code = space.tail[i];
      bits |= shift < 0 ? code >> -shift : code << shift;
    }
    out[byte] = static_cast<std::byte>(bits & 255u);
  }
}

/// Puts the tile's payload into space.stage; the caller syncs before anybody reads it.
template <unsigned kBits>
FERRULE_DEVICE void pack(const Codes<kBits>& codes, const Tile& tile, PackSpace<kBits>& space) {
  const unsigned mine = tile.my_block * (tile.block * kBits / 8);
  if constexpr (kBits == 16) {
    FERRULE_UNROLL
    for (unsigned m = 0; m < kRows; ++m) {
      if (tile.available(m) == 0) continue;
      put_word(space.stage, mine + 2 * tile.element(m), codes.pairs[m][0]);
      put_word(space.stage, mine + 2 * tile.element(m) + 4, codes.pairs[m][1]);
    }
    return;
  } else {
    if (tile.is_full()) {
      FERRULE_UNROLL
      for (unsigned k = 0; k < 4; ++k) {
        const unsigned at = mine + 4 * (tile.column + k);
        if constexpr (kBits == 8) {
          put_word(space.stage, at, codes.words[0][k]);
          put_word(space.stage, at + 4 * tile.row_stride(), codes.words[1][k]);
        } else {
          if constexpr ((kBits & 4u) != 0) put_word(space.stage, at, codes.low[k]);
          if constexpr (kHasThinPlanes<kBits>) space.columns[4 * lane_index() + k] = codes.columns()[k];
        }
      }
    } else {
      FERRULE_UNROLL
      for (unsigned m = 0; m < kRows; ++m) {
        FERRULE_UNROLL
        for (unsigned k = 0; k < 4; ++k) {
          if (k < tile.available(m))
            space.tail[tile.element(m) + k] = static_cast<std::uint8_t>(codes.get(m, k));
        }
      }
    }
    if (kHasThinPlanes<kBits> || tile.tail != 0) __syncwarp();
    if constexpr (kHasThinPlanes<kBits>) pack_thin_planes<kBits>(tile, space);
    if (tile.tail != 0) pack_tail<kBits>(tile, space);
  }
}

template <unsigned kBits>
FERRULE_DEVICE std::uint32_t tail_code(const std::byte* payload, unsigned element) {
  const unsigned bit = element * kBits;
  std::uint32_t bits = static_cast<std::uint32_t>(payload[bit / 8]);
  if (bit % 8 + kBits > 8) bits |= static_cast<std::uint32_t>(payload[bit / 8 + 1]) << 8;
  return (bits >> (bit % 8)) & ((1u << kBits) - 1u);
}

/// The lane's columns of the planes of 2 and 1 bits.
template <unsigned kBits>
FERRULE_DEVICE void unpack_thin_planes(const std::byte* stage, unsigned mine, const Tile& tile,
                                       std::uint32_t (&columns)[4]) {
  for_each_thin_plane<kBits>(tile.block, [&](const ThinPlane& plane) {
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      unsigned word = tile.column + k;
      unsigned shift = 0;
      for (unsigned s = 1; s < 4 / plane.bits; ++s) {
        if (word < plane.words) break;
        word -= plane.words;
        shift += plane.bits;
      }
      const std::uint32_t bits = word_at(stage, mine + plane.offset + 4 * word) >> shift;
      columns[k] |= (bits & plane.mask()) << plane.nibble_shift;
    }
  });
}

/// The lane's codes from a payload that stands in `stage` from byte `phase` on. Elements that do not exist
/// get the code 0.
template <unsigned kBits>
FERRULE_DEVICE void unpack(const std::byte* stage, unsigned phase, const Tile& tile, Codes<kBits>& codes) {
  const unsigned mine = phase + tile.my_block * (tile.block * kBits / 8);
  if constexpr (kBits == 16) {
    FERRULE_UNROLL
    for (unsigned m = 0; m < kRows; ++m) {
      FERRULE_UNROLL
      for (unsigned k = 0; k < 4; k += 2) {
        const unsigned available = tile.available(m);
        if (k >= available) continue;
        codes.pairs[m][k / 2] = word_at(stage, mine + 2 * (tile.element(m) + k));
        if (k + 1 == available) codes.pairs[m][k / 2] &= 0xffffu;
      }
    }
  } else if (tile.is_full()) {
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      const unsigned at = mine + 4 * (tile.column + k);
      if constexpr (kBits == 8) {
        codes.words[0][k] = word_at(stage, at);
        codes.words[1][k] = word_at(stage, at + 4 * tile.row_stride());
      } else if constexpr ((kBits & 4u) != 0) {
        codes.low[k] = word_at(stage, at);
      }
    }
    if constexpr (kBits > 4 && kBits < 8) {
      unpack_thin_planes<kBits>(stage, mine, tile, codes.high);
    } else if constexpr (kBits < 4) {
      unpack_thin_planes<kBits>(stage, mine, tile, codes.low);
    }
  } else {
    FERRULE_UNROLL
    for (unsigned m = 0; m < kRows; ++m) {
      FERRULE_UNROLL
      for (unsigned k = 0; k < 4; ++k) {
        if (k < tile.available(m)) codes.put(m, k, tail_code<kBits>(stage + mine, tile.element(m) + k));
      }
    }
  }
}

}  // namespace ferrule::cuda
