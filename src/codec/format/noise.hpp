// Counter-based random bits for stochastic rounding. The bits of an element depend on the key and on the
// element's index in its tensor, on nothing else.
#pragma once

#include "codec/format/portable.hpp"

namespace ferrule::codec::format {

/// One step of Steele, Lea and Flood's splitmix64: a bijection that mixes all 64 bits.
FERRULE_HD inline std::uint64_t splitmix64(std::uint64_t state) {
  std::uint64_t z = state + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/// The random bits of one block.
///
/// One 32-bit draw serves two elements that stand 16 apart in a group of 32: with e the element's index,
/// draw number (e / 32) * 16 + e % 16, its low half if e % 32 < 16, else its high half. So a vector of 4, 8
/// or 16 lanes draws once for two vectors of elements, without a shuffle.
struct NoiseStream {
  std::uint32_t k0 = 0;
  std::uint32_t k1 = 0;

  /// `first_element` of the block: its part above 2^33 enters the key, because draws are counted in 32 bits.
  FERRULE_HD static NoiseStream at(std::uint64_t key, std::uint64_t first_element) {
    const std::uint64_t mixed = splitmix64(key ^ splitmix64(first_element >> 33));
    return {static_cast<std::uint32_t>(mixed), static_cast<std::uint32_t>(mixed >> 32)};
  }

  /// 32 random bits for draw number `counter`. (A bare hash of counter ^ key shows correlations between
  /// keys: hence the second key in the middle.)
  FERRULE_HD std::uint32_t draw(std::uint32_t counter) const {
    std::uint32_t x = counter * 0x9e3779b1u + k0;
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x += k1;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
  }

  /// Uniform over the 65536 midpoints of (-0.5, 0.5): never +-0.5, mean exactly 0. Rounding x + dither to
  /// nearest rounds x up with a probability equal to its fractional part (to 2^-16).
  FERRULE_HD float dither(std::uint64_t element) const {
    const auto counter = static_cast<std::uint32_t>((element >> 5) * 16 + (element & 15));
    const std::uint32_t half = (draw(counter) >> (element & 16)) & 0xffffu;
    return static_cast<float>(static_cast<std::int32_t>(2 * half) - 65535) * 0x1p-17f;
  }
};

}  // namespace ferrule::codec::format
