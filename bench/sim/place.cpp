#include <fmt/format.h>

#include <utility>
#include <vector>

#include "bench/sim/network.hpp"

namespace ferrule::sim {
namespace {

Status check_rank(std::int32_t rank, std::int32_t world) {
  if (rank >= 0 && rank < world) return {};
  return {ErrorCode::invalid_argument,
          fmt::format("straggler {}: there are ranks 0 to {} only", rank, world - 1)};
}

Status check(const Stragglers& stragglers, std::int32_t world) {
  for (const LateRank& late : stragglers.late) FERRULE_RETURN_IF_ERROR(check_rank(late.rank, world));
  for (const SlowRank& slow : stragglers.slow_ranks) FERRULE_RETURN_IF_ERROR(check_rank(slow.rank, world));
  for (const SlowPair& slow : stragglers.slow_pairs) {
    FERRULE_RETURN_IF_ERROR(check_rank(slow.first, world));
    FERRULE_RETURN_IF_ERROR(check_rank(slow.second, world));
    if (slow.first != slow.second) continue;
    return {ErrorCode::invalid_argument,
            fmt::format("slow link {0}-{0}: a rank needs no link to itself", slow.first)};
  }
  return {};
}

Result<collectives::Topology> topology_of(std::int32_t world, const Levels& levels) {
  std::vector<std::vector<std::int32_t>> node_of;
  for (const Level& level : levels.levels) {
    if (level.group == kEverybody) continue;
    std::vector<std::int32_t>& nodes = node_of.emplace_back();
    for (std::int32_t rank = 0; rank < world; ++rank) nodes.push_back(rank / level.group);
  }
  if (node_of.empty()) return collectives::Topology(world);
  return collectives::Topology::make(world, node_of);
}

}  // namespace

Result<Place> place_of(std::int32_t world, const Levels& levels, const Stragglers& stragglers) {
  FERRULE_RETURN_IF_ERROR(levels.check());
  if (world < 1) return Status(ErrorCode::invalid_argument, fmt::format("a world of {} ranks", world));
  FERRULE_RETURN_IF_ERROR(check(stragglers, world));
  auto topology = topology_of(world, levels);
  FERRULE_RETURN_IF_ERROR(topology.status());
  return Place{world, levels, stragglers, std::move(topology).value()};
}

}  // namespace ferrule::sim
