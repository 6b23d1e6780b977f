// Tree: binomial, log2(N) messages one after another; slices follow each other down the tree. For small
// tensors: the root sends the whole of it log2(N) times.
#include <bit>
#include <cstdint>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

// Counted from the root, the parent of v is v without its lowest bit, and its children are v plus each lower
// bit. The largest subtree first.
Schedule build_rooted(std::int32_t rank, const Topology& topology, std::int32_t root) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, 1);
  const auto v = static_cast<std::uint32_t>(wrap(rank - root, world));
  const auto peer = [&](std::uint32_t of) { return (static_cast<std::int32_t>(of) + root) % world; };
  const std::uint32_t slot = v == 0 ? builder.encode_input(0) : builder.recv(peer(v & (v - 1)), 0);
  builder.decode(0, slot);
  const auto ranks = static_cast<std::uint32_t>(world);
  for (std::uint32_t bit = v == 0 ? std::bit_ceil(ranks) / 2 : (v & (~v + 1)) / 2; bit != 0; bit /= 2) {
    if (v + bit < ranks) builder.send(peer(v + bit), 0, slot);
  }
  return builder.take();
}

Schedule build(std::int32_t rank, const Topology& topology) { return build_rooted(rank, topology, 0); }

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) {
  return static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint32_t>(topology.world() - 1)));
}

}  // namespace

AlgorithmDesc broadcast_tree_algorithm() {
  return {.name = "tree",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .collective = Collective::broadcast,
          .build_rooted = build_rooted};
}

}  // namespace ferrule::collectives
