#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <span>
#include <string_view>
#include <vector>

#include "collectives/schedule.hpp"

namespace ferrule::collectives {

#include "registered_algorithms.inc"

namespace {

using ByCollective = std::array<std::vector<AlgorithmDesc>, kCollectiveCount>;

ByCollective sort_registered() {
  ByCollective sorted;
#define FERRULE_CALL(word) word##_algorithm(),
  for (const AlgorithmDesc& each : {FERRULE_REGISTERED_ALGORITHM(FERRULE_CALL)}) {
    sorted[static_cast<std::size_t>(each.collective)].push_back(each);
  }
#undef FERRULE_CALL
  return sorted;
}

constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                       "gather",     "scatter",        "all_to_all", "barrier"};
static_assert(std::size(kNames) == kCollectiveCount);

}  // namespace

std::string_view name(Collective collective) {
  return is_valid(collective) ? kNames[static_cast<std::size_t>(collective)] : std::string_view("invalid");
}

std::span<const AlgorithmDesc> algorithms(Collective collective) {
  static const ByCollective kSorted = sort_registered();
  return kSorted[static_cast<std::size_t>(collective)];
}

Schedule build(const AlgorithmDesc& algorithm, std::int32_t rank, const Topology& topology,
               std::int32_t root) {
  return algorithm.build_rooted == nullptr ? algorithm.build(rank, topology)
                                           : algorithm.build_rooted(rank, topology, root);
}

const AlgorithmDesc* find_algorithm(std::string_view name, Collective collective) {
  const auto all = algorithms(collective);
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& a) { return a.name == name; });
  return found == all.end() ? nullptr : &*found;
}

std::uint32_t encodes_at(const AlgorithmDesc& algorithm, const Topology& topology, std::uint32_t level) {
  if (algorithm.uses_topology()) return algorithm.encodes_at(topology, level);
  return level == 0 ? algorithm.encodes(topology) : 0;
}

}  // namespace ferrule::collectives
