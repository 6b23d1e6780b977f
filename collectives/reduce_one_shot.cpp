// One-shot: everybody sends to the root, which adds in rank order. One message of latency, but the root takes
// in N-1 whole tensors: for small ones.
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

Schedule build_rooted(std::int32_t rank, const Topology& topology, std::int32_t root) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, 1);
  if (rank != root) {
    builder.send(root, 0, builder.encode_input(0));
    return builder.take();
  }
  std::vector<std::uint32_t> contributions(static_cast<std::size_t>(world), kOwnInput);
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t source = wrap(root + i, world);
    contributions[source] = builder.recv(source, 0);
  }
  for (const std::uint32_t contribution : contributions) builder.add(0, contribution);
  builder.decode_sum(0);
  return builder.take();
}

Schedule build(std::int32_t rank, const Topology& topology) { return build_rooted(rank, topology, 0); }

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }

}  // namespace

AlgorithmDesc reduce_one_shot_algorithm() {
  return {.name = "one_shot",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = true,
          .collective = Collective::reduce,
          .build_rooted = build_rooted};
}

}  // namespace ferrule::collectives
