// Direct: every rank sends every other its part. Rank r begins with r+1 and goes round, so that at any time
// each rank is the target of about one sender.
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  const auto chunk_of = [world](std::int32_t source, std::int32_t destination) {
    return static_cast<std::uint32_t>(source) * static_cast<std::uint32_t>(world) +
           static_cast<std::uint32_t>(destination);
  };
  Builder builder(rank, world, static_cast<std::uint32_t>(world) * static_cast<std::uint32_t>(world));
  std::vector<std::uint32_t> outgoing(static_cast<std::size_t>(world));
  std::vector<std::uint32_t> incoming(static_cast<std::size_t>(world));
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t to = wrap(rank + i, world);
    outgoing[to] = builder.encode_input(chunk_of(rank, to));
  }
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t to = wrap(rank + i, world);
    const std::int32_t from = wrap(rank - i, world);
    builder.send(to, chunk_of(rank, to), outgoing[to]);
    incoming[from] = builder.recv(from, chunk_of(from, rank));
  }
  builder.add_input(chunk_of(rank, rank));
  builder.decode_sum(chunk_of(rank, rank));
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t from = wrap(rank - i, world);
    builder.decode(chunk_of(from, rank), incoming[from]);
  }
  return builder.take();
}

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t chunks_sent(const Topology& topology) {
  return static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc all_to_all_direct_algorithm() {
  return {.name = "direct",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .collective = Collective::all_to_all};
}

}  // namespace ferrule::collectives
