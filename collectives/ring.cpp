// Ring: chunk c starts at rank c+1, is hopped through all ranks in turn and ends at its owner, rank c, whose
// bytes then go round the ring unchanged.
//
// P. Patarasuk and X. Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", Journal
// of Parallel and Distributed Computing 69(2), 2009. Each rank talks to two neighbours only, which suits
// links without a switch; the price is 2 (N-1) messages in a row, and an encode at each of the N ranks that a
// partial sum passes, so the error of a lossy codec grows with N.
//
// Bytes sent by each rank, for a tensor of B encoded bytes: 2 (N-1)/N * B, the least that any all-reduce can
// do.
#include <cstdint>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

// One rank's place in the ring.
struct Place {
  std::int32_t rank;
  std::int32_t world;

  std::int32_t next() const { return wrap(rank + 1, world); }
  std::int32_t previous() const { return wrap(rank - 1, world); }
  /// The chunk owned by the rank `distance` places back; distance in [0, world].
  std::uint32_t chunk_behind(std::int32_t distance) const {
    return static_cast<std::uint32_t>(wrap(rank - distance, world));
  }
};

// Returns the slot of the own chunk's encoded sum. In turn i a rank passes on the partial sum of the chunk
// i+1 places back, and receives that of the chunk i+2 places back.
std::uint32_t reduce_scatter(Builder& builder, const Place& place) {
  std::uint32_t partial = builder.encode_input(place.chunk_behind(1));
  for (std::int32_t i = 1; i < place.world; ++i) {
    builder.send(place.next(), place.chunk_behind(i), partial);
    const std::uint32_t received = builder.recv(place.previous(), place.chunk_behind(i + 1));
    partial = builder.hop(place.chunk_behind(i + 1), received);
  }
  return partial;
}

// A chunk is decoded after it has been passed on, so that the decode overlaps with the wire (and separates
// the batches: the next one sends what this one receives).
void all_gather(Builder& builder, const Place& place, std::uint32_t slot) {
  for (std::int32_t i = 0; i + 1 < place.world; ++i) {
    builder.send(place.next(), place.chunk_behind(i), slot);
    const std::uint32_t received = builder.recv(place.previous(), place.chunk_behind(i + 1));
    builder.decode(place.chunk_behind(i), slot);
    slot = received;
  }
  builder.decode(place.chunk_behind(place.world - 1), slot);
}

Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  const Place place{rank, world};
  all_gather(builder, place, reduce_scatter(builder, place));
  return builder.take();
}

std::uint32_t encodes(const Topology& topology) {
  return topology.world() == 1 ? 0 : static_cast<std::uint32_t>(topology.world());
}
std::uint32_t chunks_sent(const Topology& topology) {
  return 2 * static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc ring_algorithm() {
  return {
      .name = "ring", .build = build, .encodes = encodes, .chunks_sent = chunks_sent, .rank_order = false};
}

}  // namespace ferrule::collectives
