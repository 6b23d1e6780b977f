// Topologies that tests walk: every cut of small worlds into nodes, and some with more levels, uneven and
// mixed.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "collectives/topology.hpp"

namespace ferrule::collectives::test {

inline Topology topology(const std::string& text, std::int32_t world) {
  auto parsed = Topology::parse(text, world);
  EXPECT_TRUE(parsed.ok()) << parsed.status().text();
  return parsed.ok() ? *parsed : Topology(world);
}

/// Nodes of consecutive ranks: all sizes that add up to `world`.
inline std::vector<Topology> compositions(std::int32_t world) {
  std::vector<Topology> all;
  for (std::uint32_t cuts = 0; cuts < 1U << (world - 1); ++cuts) {
    std::vector<std::int32_t> sizes{1};
    for (std::int32_t rank = 1; rank < world; ++rank) {
      if ((cuts >> (rank - 1) & 1U) != 0) {
        sizes.push_back(1);
      } else {
        ++sizes.back();
      }
    }
    all.push_back(Topology::of_sizes(sizes));
  }
  return all;
}

inline std::vector<Topology> topologies() {
  std::vector<Topology> all;
  for (std::int32_t world = 1; world <= 6; ++world) {
    for (Topology& one : compositions(world)) all.push_back(std::move(one));
  }
  const std::pair<const char*, std::int32_t> kTexts[] = {
      {"0,2|1,3", 4},    // ranks go round the nodes
      {"3|0,2,4|1", 5},  // and in no order at all
      {"4+4", 8},
      {"1+7", 8},
      {"3+5+4", 12},
      {"7+8+5", 20},  // no small common multiple
      {"8x8", 64},
      {"2x2x2", 8},
      {"2x3x4", 24},
      {"1x4", 4},       // one node
      {"4x1", 4},       // nodes of one
      {"1x1x3", 3},     // two levels without use outside
      {"3x1x1", 3},     // inside
      {"2x1x2", 4},     // in the middle
      {"0|1||2,3", 4},  // three levels, uneven at each
      {"0|1,2||3,4,5|6||7", 8},
      {"0|1||2,3,4|||5|6,7", 8},  // four
      {"2x2x2x2", 16},
  };
  for (const auto& [text, world] : kTexts) all.push_back(topology(text, world));
  return all;
}

}  // namespace ferrule::collectives::test
