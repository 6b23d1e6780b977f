// Direct: the root sends each rank its part.
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

constexpr std::uint32_t chunk_of(std::int32_t owner) { return static_cast<std::uint32_t>(owner); }

Schedule build_rooted(std::int32_t rank, const Topology& topology, std::int32_t root) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  if (rank != root) {
    builder.decode(chunk_of(rank), builder.recv(root, chunk_of(rank)));
    return builder.take();
  }
  std::vector<std::uint32_t> parts(static_cast<std::size_t>(world));
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(root + i, world);
    parts[owner] = builder.encode_input(chunk_of(owner));
  }
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t owner = wrap(root + i, world);
    builder.send(owner, chunk_of(owner), parts[owner]);
  }
  builder.add_input(chunk_of(root));
  builder.decode_sum(chunk_of(root));
  return builder.take();
}

Schedule build(std::int32_t rank, const Topology& topology) { return build_rooted(rank, topology, 0); }

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) {
  return static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc scatter_direct_algorithm() {
  return {.name = "direct",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .collective = Collective::scatter,
          .build_rooted = build_rooted};
}

}  // namespace ferrule::collectives
