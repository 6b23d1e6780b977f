// Direct: every rank owns one chunk, gets all contributions to it at once, and sends the sum to everybody.
//
// An all-to-all reduce-scatter followed by an all-gather of the owners' bytes. Two encodes whatever the
// world, which is why it is the default for lossy codecs; its price is N-1 small messages a phase, so it
// wants tensors that are large compared with N messages.
//
// Bytes sent by each rank, for a tensor of B encoded bytes: 2 (N-1)/N * B, the least that any all-reduce can
// do.
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

constexpr std::uint32_t chunk_of(std::int32_t owner) { return static_cast<std::uint32_t>(owner); }

// Sends the own contribution to every owner and returns the slots of the contributions to the own chunk, by
// rank (the own entry is kOwnInput). Rank r begins with r+1 and goes round, so that at any time each rank is
// the target of about one sender.
std::vector<std::uint32_t> scatter(Builder& builder, std::int32_t rank, std::int32_t world) {
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
  return incoming;
}

// Sends the encoded sum to all, and decodes all chunks: the own one from the bytes that the others get.
void gather(Builder& builder, std::int32_t rank, std::int32_t world, std::uint32_t own) {
  std::vector<std::uint32_t> incoming(static_cast<std::size_t>(world), own);
  for (std::int32_t i = 1; i < world; ++i) {
    const std::int32_t source = wrap(rank - i, world);
    builder.send(wrap(rank + i, world), chunk_of(rank), own);
    incoming[source] = builder.recv(source, chunk_of(source));
  }
  for (std::int32_t i = 0; i < world; ++i) {
    const std::int32_t owner = wrap(rank - i, world);
    builder.decode(chunk_of(owner), incoming[owner]);
  }
}

Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  Builder builder(rank, world, static_cast<std::uint32_t>(world));
  for (const std::uint32_t contribution : scatter(builder, rank, world)) {
    builder.add(chunk_of(rank), contribution);
  }
  gather(builder, rank, world, builder.encode_sum(chunk_of(rank)));
  return builder.take();
}

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 2; }
std::uint32_t chunks_sent(const Topology& topology) {
  return 2 * static_cast<std::uint32_t>(topology.world() - 1);
}

}  // namespace

AlgorithmDesc direct_algorithm() {
  return {
      .name = "direct", .build = build, .encodes = encodes, .chunks_sent = chunks_sent, .rank_order = true};
}

}  // namespace ferrule::collectives
