// Direct: the root sends each rank its share and everybody the root's own; every rank passes its share on to
// all others. Two rounds whatever the world, and the root sends the tensor less than twice.
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

constexpr std::uint32_t chunk_of(std::int32_t owner) { return static_cast<std::uint32_t>(owner); }

Schedule build_root(std::int32_t root, std::int32_t world) {
  Builder builder(root, world, static_cast<std::uint32_t>(world));
  std::vector<std::uint32_t> shares;
  for (std::int32_t owner = 0; owner < world; ++owner)
    shares.push_back(builder.encode_input(chunk_of(owner)));
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(root + i, world);
    builder.send(owner, chunk_of(owner), shares[owner]);
  }
  for (std::int32_t i = 1; i < world; ++i) {
    builder.send(wrap(root + i, world), chunk_of(root), shares[root]);
  }
  for (std::int32_t owner = 0; owner < world; ++owner) builder.decode(chunk_of(owner), shares[owner]);
  return builder.take();
}

Schedule build_other(std::int32_t rank, std::int32_t world, std::int32_t root) {
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  const std::uint32_t own = builder.recv(root, chunk_of(rank));
  builder.decode(chunk_of(rank), own);  // between the batches
  std::vector<std::uint32_t> shares(static_cast<std::size_t>(world), own);
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t to = wrap(rank + i, world);
    const std::int32_t from = wrap(rank - i, world);
    if (to != root) builder.send(to, chunk_of(rank), own);
    shares[from] = builder.recv(from, chunk_of(from));
  }
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(rank - i, world);
    builder.decode(chunk_of(owner), shares[owner]);
  }
  return builder.take();
}

Schedule build_rooted(std::int32_t rank, const Topology& topology, std::int32_t root) {
  if (topology.world() == 1) return single_rank_schedule();
  return rank == root ? build_root(root, topology.world()) : build_other(rank, topology.world(), root);
}

Schedule build(std::int32_t rank, const Topology& topology) { return build_rooted(rank, topology, 0); }

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) {
  return 2 * static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc broadcast_direct_algorithm() {
  return {.name = "direct",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .collective = Collective::broadcast,
          .build_rooted = build_rooted};
}

}  // namespace ferrule::collectives
