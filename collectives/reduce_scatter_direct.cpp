// Direct: every rank sends each owner its contribution to the owner's chunk, and the owner adds them in rank
// order.
//
// One encode whatever the world. The own contribution is added as it is: nobody else needs to see it. Bytes
// sent by each rank, for a tensor of B encoded bytes: (N-1)/N * B, the least that any reduce-scatter can do.
#include <cstdint>

#include "collectives/direct_phases.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  add_contributions(builder, rank, world);
  builder.decode_sum(chunk_of(rank));
  return builder.take();
}

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) {
  return static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc reduce_scatter_direct_algorithm() {
  return {.name = "direct",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = true,
          .collective = Collective::reduce_scatter};
}

}  // namespace ferrule::collectives
