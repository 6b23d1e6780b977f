#include "bench/ferrule_bench/digest.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace ferrule::bench {

std::uint64_t digest(std::span<const std::byte> bytes) {
  // Each step is a bijection of the state for a given word and of the word for a given state.
  std::uint64_t state = 0x243f6a8885a308d3 ^ bytes.size();
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min<std::size_t>(8, bytes.size() - at));
    state = std::rotl((state ^ word) * 0x9fb21c651e98df25, 29);
  }
  state = (state ^ (state >> 33)) * 0xff51afd7ed558ccd;
  return state ^ (state >> 33);
}

}  // namespace ferrule::bench
