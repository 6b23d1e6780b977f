#include <algorithm>
#include <array>
#include <span>
#include <string_view>

#include "collectives/schedule.hpp"

namespace ferrule::collectives {

#include "registered_algorithms.inc"

std::span<const AlgorithmDesc> algorithms() {
#define FERRULE_CALL(word) word##_algorithm(),
  static const std::array table{FERRULE_REGISTERED_ALGORITHM(FERRULE_CALL)};
#undef FERRULE_CALL
  return table;
}

const AlgorithmDesc* find_algorithm(std::string_view name) {
  const auto all = algorithms();
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::uint32_t encodes_at(const AlgorithmDesc& algorithm, const Topology& topology, std::uint32_t level) {
  if (algorithm.uses_topology()) return algorithm.encodes_at(topology, level);
  return level == 0 ? algorithm.encodes(topology) : 0;
}

}  // namespace ferrule::collectives
