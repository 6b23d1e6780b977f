// Direct: every rank owns one chunk, gets all contributions to it at once, and sends the sum to everybody.
//
// An all-to-all reduce-scatter followed by an all-gather of the owners' bytes. Two encodes whatever the
// world, which is why it is the default for lossy codecs; its price is N-1 small messages a phase, so it
// wants tensors that are large compared with N messages.
//
// Bytes sent by each rank, for a tensor of B encoded bytes: 2 (N-1)/N * B, the least that any all-reduce can
// do.
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
  spread(builder, rank, world, builder.encode_sum(chunk_of(rank)));
  return builder.take();
}

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 2; }
std::uint32_t chunks_sent(const Topology& topology) {
  return 2 * static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc direct_algorithm() {
  return {
      .name = "direct", .build = build, .encodes = encodes, .chunks_sent = chunks_sent, .rank_order = true};
}

}  // namespace ferrule::collectives
