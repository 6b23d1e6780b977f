// Direct: a reduce-scatter, then every rank sends its share of the sum to the root. No rank takes in much
// more than the tensor once, whatever the world.
#include <cstdint>
#include <vector>

#include "collectives/direct_phases.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

Schedule build_rooted(std::int32_t rank, const Topology& topology, std::int32_t root) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  add_contributions(builder, rank, world);
  if (rank != root) {
    builder.send(root, chunk_of(rank), builder.encode_sum(chunk_of(rank)));
    return builder.take();
  }
  builder.decode_sum(chunk_of(root));
  std::vector<std::uint32_t> shares(static_cast<std::size_t>(world));
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(root + i, world);
    shares[owner] = builder.recv(owner, chunk_of(owner));
  }
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(root + i, world);
    builder.decode(chunk_of(owner), shares[owner]);
  }
  return builder.take();
}

Schedule build(std::int32_t rank, const Topology& topology) { return build_rooted(rank, topology, 0); }

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 2; }
std::uint32_t chunks_sent(const Topology& topology) {
  return topology.world() == 1 ? 0 : static_cast<std::uint32_t>(topology.world());
}

}  // namespace

AlgorithmDesc reduce_direct_algorithm() {
  return {.name = "direct",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = true,
          .collective = Collective::reduce,
          .build_rooted = build_rooted};
}

}  // namespace ferrule::collectives
