// Direct: everybody sends its part to the root.
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
    builder.send(root, chunk_of(rank), builder.encode_input(chunk_of(rank)));
    return builder.take();
  }
  builder.add_input(chunk_of(root));
  builder.decode_sum(chunk_of(root));
  std::vector<std::uint32_t> parts(static_cast<std::size_t>(world));
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t source = wrap(root + i, world);
    parts[source] = builder.recv(source, chunk_of(source));
  }
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t source = wrap(root + i, world);
    builder.decode(chunk_of(source), parts[source]);
  }
  return builder.take();
}

Schedule build(std::int32_t rank, const Topology& topology) { return build_rooted(rank, topology, 0); }

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }

}  // namespace

AlgorithmDesc gather_direct_algorithm() {
  return {.name = "direct",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .collective = Collective::gather,
          .build_rooted = build_rooted};
}

}  // namespace ferrule::collectives
