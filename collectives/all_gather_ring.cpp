// Ring: every part goes round the ring unchanged; each rank talks to two neighbours only. N-1 messages in a
// row. Bytes sent by each rank, for parts of P encoded bytes: (N-1) * P.
#include <cstdint>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

// A part is decoded after it has been passed on: that overlaps with the wire, and separates the batches.
Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  auto chunk = static_cast<std::uint32_t>(rank);
  std::uint32_t slot = builder.encode_input(chunk);
  for (std::int32_t i = 1; i < world; ++i) {
    const auto next_chunk = static_cast<std::uint32_t>(wrap(rank - i, world));
    builder.send(wrap(rank + 1, world), chunk, slot);
    const std::uint32_t received = builder.recv(wrap(rank - 1, world), next_chunk);
    builder.decode(chunk, slot);
    slot = received;
    chunk = next_chunk;
  }
  builder.decode(chunk, slot);
  return builder.take();
}

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) {
  return static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc all_gather_ring_algorithm() {
  return {.name = "ring",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .collective = Collective::all_gather};
}

}  // namespace ferrule::collectives
