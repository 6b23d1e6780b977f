// How codes of 2 to 8 bits stand in the payload of a block.
//
// The width is split by its binary digits into planes of 8, 4, 2 and 1 bits, largest first; the first plane
// takes the low bits of the code (7 = 4 + 2 + 1). In a full block of B elements a plane of p bits is
// L = B * p / 32 little-endian words of 32 bits; element i stands in word i % L at bit p * (i / L). So L
// lanes pack and unpack with one shift each, without byte shuffles. A last block that is not full is one
// string of bits: element i stands at bit `width` * i, bit b is bit b % 8 of byte b / 8.
#pragma once

#include "codec/format/portable.hpp"

namespace ferrule::codec::format {

inline constexpr std::size_t kSmallestBlock = 32;
inline constexpr std::size_t kLargestBlock = 1024;

/// Payload bytes of a block (full or not) of `count` codes.
FERRULE_HD constexpr std::size_t packed_bytes(std::size_t count, unsigned width) {
  return (count * width + 7) / 8;
}

/// One plane of a full block.
struct Plane {
  unsigned bits;      ///< 1, 2, 4 or 8
  unsigned shift;     ///< of the plane's bits within a code
  std::size_t words;  ///< L
  std::size_t bytes_before;
};

/// Calls visit(plane) for each plane of a full block, in the order of the wire.
template <class Visitor>
FERRULE_HD inline void for_each_plane(std::size_t block, unsigned width, Visitor visit) {
  unsigned shift = 0;
  for (unsigned bits = 8; bits != 0; bits /= 2) {
    if ((width & bits) == 0) continue;
    visit(Plane{bits, shift, block * bits / 32, block * shift / 8});
    shift += bits;
  }
}

FERRULE_HD inline void pack_plane(const std::uint8_t* codes, const Plane& plane, std::byte* out) {
  const std::uint32_t mask = (1u << plane.bits) - 1u;
  std::uint32_t words[kLargestBlock / 4];
  for (std::size_t lane = 0; lane < plane.words; ++lane) {
    words[lane] = (static_cast<std::uint32_t>(codes[lane]) >> plane.shift) & mask;
  }
  for (unsigned at = plane.bits; at < 32; at += plane.bits) {
    codes += plane.words;
    for (std::size_t lane = 0; lane < plane.words; ++lane) {
      words[lane] |= ((static_cast<std::uint32_t>(codes[lane]) >> plane.shift) & mask) << at;
    }
  }
  for (std::size_t lane = 0; lane < plane.words; ++lane) store_u32(out + 4 * lane, words[lane]);
}

FERRULE_HD inline void unpack_plane(const std::byte* in, const Plane& plane, std::uint8_t* codes) {
  const std::uint32_t mask = (1u << plane.bits) - 1u;
  for (unsigned at = 0; at < 32; at += plane.bits) {
    for (std::size_t lane = 0; lane < plane.words; ++lane) {
      const std::uint32_t part = (load_u32(in + 4 * lane) >> at) & mask;
      codes[lane] = static_cast<std::uint8_t>(codes[lane] | (part << plane.shift));
    }
    codes += plane.words;
  }
}

/// Packs one block: `count` <= `block` codes below 2^width. Writes packed_bytes(count, width).
FERRULE_HD inline void pack_codes(const std::uint8_t* codes, std::size_t count, std::size_t block,
                                  unsigned width, std::byte* out) {
  if (count == block) {
    for_each_plane(block, width,
                   [&](const Plane& plane) { pack_plane(codes, plane, out + plane.bytes_before); });
    return;
  }
  std::uint32_t pending = 0;
  unsigned pending_bits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    pending |= static_cast<std::uint32_t>(codes[i]) << pending_bits;
    pending_bits += width;
    for (; pending_bits >= 8; pending_bits -= 8, pending >>= 8) store_byte(out++, pending);
  }
  if (pending_bits != 0) store_byte(out, pending);
}

/// The inverse; any bytes are accepted.
FERRULE_HD inline void unpack_codes(const std::byte* in, std::size_t count, std::size_t block, unsigned width,
                                    std::uint8_t* codes) {
  if (count == block) {
    std::memset(codes, 0, count);
    for_each_plane(block, width,
                   [&](const Plane& plane) { unpack_plane(in + plane.bytes_before, plane, codes); });
    return;
  }
  const std::uint32_t mask = (1u << width) - 1u;
  std::uint32_t pending = 0;
  unsigned pending_bits = 0;
  for (std::size_t i = 0; i < count; ++i) {
    for (; pending_bits < width; pending_bits += 8) pending |= load_byte(in++) << pending_bits;
    codes[i] = static_cast<std::uint8_t>(pending & mask);
    pending >>= width;
    pending_bits -= width;
  }
}

}  // namespace ferrule::codec::format
