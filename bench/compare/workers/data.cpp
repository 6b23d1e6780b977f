#include "bench/compare/workers/data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

namespace ferrule::compare {

void fill(std::uint32_t seed, int rank, std::uint64_t first, std::span<float> out) {
  const std::uint32_t key = seed * 0x9e3779b1u + static_cast<std::uint32_t>(rank) * 0x85ebca6bu;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint32_t bits = (static_cast<std::uint32_t>(first + i) + key) * 2654435761u;
    bits = (bits ^ (bits >> 15)) * 0x2c1b3c6du;
    out[i] = static_cast<float>(static_cast<std::int32_t>(bits >> 24) - 128);
  }
}

void expect(std::uint32_t seed, int ranks, std::size_t block, std::uint64_t first, const Expected& expected) {
  const std::size_t count = expected.sums.size();
  std::vector<float> values(count);
  std::fill(expected.sums.begin(), expected.sums.end(), 0.0);
  std::fill(expected.magnitudes.begin(), expected.magnitudes.end(), 0.0);
  for (int rank = 0; rank < ranks; ++rank) {
    fill(seed, rank, first, values);
    for (std::size_t i = 0; i < count; ++i) expected.sums[i] += values[i];
    for (std::size_t begin = 0; begin < count; begin += block) {
      const std::size_t end = std::min(begin + block, count);
      float largest = 0;
      for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
      for (std::size_t i = begin; i < end; ++i) expected.magnitudes[i] += largest;
    }
  }
}

std::uint64_t digest(std::span<const float> values) {
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  for (const float value : values) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    hash = (hash ^ bits) * 0x100000001b3u;
    hash ^= hash >> 29;
  }
  return hash;
}

}  // namespace ferrule::compare
