// Direct: every rank encodes its part once and sends the bytes to everybody.
//
// One round, which makes it the one for small parts too. A rank decodes its own part from the bytes that the
// others get, so that all hold the same. Bytes sent by each rank, for a part of P encoded bytes: (N-1) * P,
// the least that any all-gather can do.
#include <cstdint>

#include "collectives/direct_phases.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  spread(builder, rank, world, builder.encode_input(chunk_of(rank)));
  return builder.take();
}

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) {
  return static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc all_gather_direct_algorithm() {
  return {.name = "direct",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .collective = Collective::all_gather};
}

}  // namespace ferrule::collectives
