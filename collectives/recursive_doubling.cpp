// Recursive doubling: in round i, groups of 2^i ranks exchange their sums with the neighbouring group, each
// rank with its counterpart, until all have the sum of all.
//
// R. Thakur, R. Rabenseifner and W. Gropp, "Optimization of collective communication operations in MPICH",
// International Journal of High Performance Computing Applications 19(1), 2005. log2 N messages of latency,
// for tensors of a few KiB.
//
// Two things differ from the exact algorithm, and make all ranks hold the same bits:
// * a rank adds its own group's sum as the other group sees it: decoded from the bytes that it has sent;
// * all members of a group encode the same sum, with the same random bits, into the same bytes. Its error
// then
//   exists once, and the lowest rank of the group keeps it.
//
// Where N is no power of two, the first N - 2^k pairs of ranks (0,1), (2,3), ... act as one: the odd rank
// hands its contribution to the even one first, and gets the two halves of the sum afterwards.
//
// Bytes sent by each rank, for a tensor of B encoded bytes: at most floor(log2 N) * B, and 2 B more if N is
// no power of two.
#include <bit>
#include <cstdint>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

// The largest power of two within the world, and the pairs that are left over.
struct Shape {
  explicit Shape(std::int32_t world_size)
      : world(world_size),
        rounds(std::bit_width(static_cast<std::uint32_t>(world_size)) - 1),
        pairs(world_size - (std::int32_t{1} << rounds)) {}

  bool is_paired(std::int32_t rank) const { return rank < 2 * pairs; }
  bool is_extra(std::int32_t rank) const { return is_paired(rank) && rank % 2 == 1; }
  /// Number among those who take part in the rounds, and back.
  std::int32_t member(std::int32_t rank) const { return is_paired(rank) ? rank / 2 : rank - pairs; }
  std::int32_t rank_of(std::int32_t member) const { return member < pairs ? 2 * member : member + pairs; }

  std::int32_t world;
  std::int32_t rounds;
  std::int32_t pairs;
};

struct Halves {
  std::uint32_t lower;
  std::uint32_t upper;
};

Halves exchange(Builder& builder, const Shape& shape, std::int32_t member, std::int32_t other,
                std::uint32_t own) {
  builder.send(shape.rank_of(other), 0, own);
  const std::uint32_t received = builder.recv(shape.rank_of(other), 0);
  return member < other ? Halves{own, received} : Halves{received, own};
}

void add(Builder& builder, const Halves& halves) {
  builder.add(0, halves.lower);
  builder.add(0, halves.upper);
}

// Encodes the group's sum at the beginning of a round after the first. The noise is that of the lowest rank,
// but of a number of its own for each round: with the bits of an earlier round, whose outcome is part of the
// sum, stochastic rounding would be biased.
std::uint32_t encode_group(Builder& builder, const Shape& shape, std::int32_t member, std::int32_t round) {
  const std::int32_t lowest = member & ~((std::int32_t{1} << round) - 1);
  const ErrorKept error = member == lowest ? ErrorKept::charge : ErrorKept::none;
  return builder.encode_shared_sum(0, error, shape.rank_of(lowest) + shape.world * round);
}

Schedule build_extra(std::int32_t rank, std::int32_t world) {
  Builder builder(rank, world, 1);
  const std::int32_t partner = rank - 1;
  builder.send(partner, 0, builder.encode_input(0));
  const std::uint32_t lower = builder.recv(partner, 0);
  const std::uint32_t upper = builder.recv(partner, 0);
  add(builder, {lower, upper});
  builder.decode_sum(0);
  return builder.take();
}

Schedule build_member(std::int32_t rank, const Shape& shape) {
  Builder builder(rank, shape.world, 1);
  const std::int32_t member = shape.member(rank);
  const bool paired = shape.is_paired(rank);
  const std::uint32_t first = paired ? builder.hop(0, builder.recv(rank + 1, 0)) : builder.encode_input(0);
  Halves halves = exchange(builder, shape, member, member ^ 1, first);
  add(builder, halves);
  for (std::int32_t round = 1; round < shape.rounds; ++round) {
    const std::uint32_t own = encode_group(builder, shape, member, round);
    halves = exchange(builder, shape, member, member ^ (std::int32_t{1} << round), own);
    add(builder, halves);
  }
  if (paired) {
    builder.send(rank + 1, 0, halves.lower);
    builder.send(rank + 1, 0, halves.upper);
  }
  builder.decode_sum(0);
  return builder.take();
}

Schedule build(std::int32_t rank, const Topology& topology) {
  const std::int32_t world = topology.world();
  if (world == 1) return single_rank_schedule();
  const Shape shape(world);
  return shape.is_extra(rank) ? build_extra(rank, world) : build_member(rank, shape);
}

// One a round, and one more for the contributions that are folded in first: ceil(log2 N).
std::uint32_t encodes(const Topology& topology) {
  const std::int32_t world = topology.world();
  return static_cast<std::uint32_t>(std::bit_width(static_cast<std::uint32_t>(world - 1)));
}

std::uint32_t chunks_sent(const Topology& topology) {
  const std::int32_t world = topology.world();
  const Shape shape(world);
  return static_cast<std::uint32_t>(shape.rounds + (shape.pairs > 0 ? 2 : 0));
}

}  // namespace

AlgorithmDesc recursive_doubling_algorithm() {
  return {.name = "recursive_doubling",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false};
}

}  // namespace ferrule::collectives
