// Ring: chunk c starts at rank c+1 and is hopped through all ranks in turn to its owner, rank c.
//
// Each rank talks to two neighbours only; the price is N-1 messages in a row, and an encode at each rank that
// a partial sum passes. Bytes sent by each rank, for a tensor of B encoded bytes: (N-1)/N * B.
#include <cstdint>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  const auto chunk_behind = [&](std::int32_t distance) {
    return static_cast<std::uint32_t>(wrap(rank - distance, world));
  };
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  std::uint32_t partial = builder.encode_input(chunk_behind(1));
  for (std::int32_t i = 1; i < world; ++i) {
    builder.send(wrap(rank + 1, world), chunk_behind(i), partial);
    const std::uint32_t chunk = chunk_behind(i + 1);
    const std::uint32_t received = builder.recv(wrap(rank - 1, world), chunk);
    if (i + 1 < world) {
      partial = builder.hop(chunk, received);
    } else {
      builder.add(chunk, received);
    }
  }
  builder.add_input(chunk_behind(0));
  builder.decode_sum(chunk_behind(0));
  return builder.take();
}

std::uint32_t encodes(const Topology& topology) { return static_cast<std::uint32_t>(topology.world() - 1); }
std::uint32_t chunks_sent(const Topology& topology) {
  return static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc reduce_scatter_ring_algorithm() {
  return {.name = "ring",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .collective = Collective::reduce_scatter};
}

}  // namespace ferrule::collectives
