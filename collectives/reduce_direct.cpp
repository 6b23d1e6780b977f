// Direct: a reduce-scatter, then every rank sends its share of the sum to the root. No rank takes in much
// more than the tensor once, whatever the world.
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

constexpr std::uint32_t chunk_of(std::int32_t owner) { return static_cast<std::uint32_t>(owner); }

// Leaves the own share in the sum of the own chunk, added in rank order.
void add_shares(Builder& builder, std::int32_t rank, std::int32_t world) {
  std::vector<std::uint32_t> outgoing(static_cast<std::size_t>(world), kOwnInput);
  std::vector<std::uint32_t> incoming(static_cast<std::size_t>(world), kOwnInput);
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(rank + i, world);
    outgoing[owner] = builder.encode_input(chunk_of(owner));
  }
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(rank + i, world);
    const std::int32_t source = wrap(rank - i, world);
    builder.send(owner, chunk_of(owner), outgoing[owner]);
    incoming[source] = builder.recv(source, chunk_of(rank));
  }
  for (const std::uint32_t contribution : incoming) builder.add(chunk_of(rank), contribution);
}

Schedule build_rooted(std::int32_t rank, const Topology& topology, std::int32_t root) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  add_shares(builder, rank, world);
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
