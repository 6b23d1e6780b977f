// One-shot: every rank sends its encoded contribution to everybody, and everybody adds all of them.
//
// One message of latency and one encode, but N-1 times the bytes and N decodes at every rank: for tensors of
// a few KiB. A rank adds its own contribution as the others see it, decoded from its bytes, so that all ranks
// hold the same sum.
//
// Bytes sent by each rank, for a tensor of B encoded bytes: (N-1) * B.
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, 1);
  // By rank. Targets in the order r+1, r+2, ... so that no rank is everybody's first.
  std::vector<std::uint32_t> contributions(static_cast<std::size_t>(world), builder.encode_input(0));
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t source = wrap(rank - i, world);
    builder.send(wrap(rank + i, world), 0, contributions[rank]);
    contributions[source] = builder.recv(source, 0);
  }
  for (const std::uint32_t contribution : contributions) builder.add(0, contribution);
  builder.decode_sum(0);
  return builder.take();
}

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) {
  return static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc one_shot_algorithm() {
  return {
      .name = "one_shot", .build = build, .encodes = encodes, .chunks_sent = chunks_sent, .rank_order = true};
}

}  // namespace ferrule::collectives
