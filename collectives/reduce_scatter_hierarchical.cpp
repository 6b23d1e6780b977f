// Hierarchical: ranks of a node add up, for each chunk, what the node contributes to it; then the node's sum
// goes to the chunk's owner. Between nodes moves 1/size of what direct moves there, in a codec of its own.
//
// In a node, the sum for a chunk is made by the owner's deputy: the rank in the owner's place (TwoPhases).
#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"
#include "collectives/two_phases.hpp"

namespace ferrule::collectives {
namespace {

class Steps {
 public:
  Steps(std::int32_t rank, const Topology& topology)
      : rank_(rank),
        world_(topology.world()),
        phases_(topology),
        node_(phases_.node_of(rank)),
        builder_(rank, world_, static_cast<std::uint32_t>(world_)) {}

  Schedule run() {
    add_up_in_node();
    std::vector<std::uint32_t> sums(static_cast<std::size_t>(world_), kOwnInput);
    for (std::int32_t owner = 0; owner < world_; ++owner) {
      if (owner == rank_ || !stands_for(owner)) continue;
      add_node(owner);
      sums[owner] = builder_.encode_sum(chunk_of(owner), phases_.outer_level());
    }
    add_nodes(exchange_sums(sums));
    return builder_.take();
  }

 private:
  static std::uint32_t chunk_of(std::int32_t owner) { return static_cast<std::uint32_t>(owner); }
  bool stands_for(std::int32_t owner) const { return phases_.deputy(node_, owner) == rank_; }

  // Fills contributions_[place in node][owner]: slots, for the owners that this rank stands for.
  void add_up_in_node() {
    const std::int32_t size = phases_.size(node_);
    const std::int32_t place = phases_.place_of(rank_);
    std::vector<std::uint32_t> outgoing(static_cast<std::size_t>(world_), kOwnInput);
    for (std::int32_t owner = 0; owner < world_; ++owner) {
      if (!stands_for(owner)) outgoing[owner] = builder_.encode_input(chunk_of(owner));
    }
    contributions_.assign(static_cast<std::size_t>(size),
                          std::vector<std::uint32_t>(static_cast<std::size_t>(world_), kOwnInput));
    for (std::int32_t i = 1; i < size; ++i) {
      const std::int32_t to = phases_.member(node_, wrap(place + i, size));
      const std::int32_t from = wrap(place - i, size);
      for (std::int32_t owner = 0; owner < world_; ++owner) {
        if (phases_.deputy(node_, owner) == to) builder_.send(to, chunk_of(owner), outgoing[owner]);
      }
      for (std::int32_t owner = 0; owner < world_; ++owner) {
        if (!stands_for(owner)) continue;
        contributions_[from][owner] = builder_.recv(phases_.member(node_, from), chunk_of(owner));
      }
    }
  }

  // Adds what the node contributes, in rank order.
  void add_node(std::int32_t owner) {
    for (const auto& of_member : contributions_) builder_.add(chunk_of(owner), of_member[owner]);
  }

  // Returns the other nodes' sums of the own chunk, by node.
  std::vector<std::uint32_t> exchange_sums(const std::vector<std::uint32_t>& sums) {
    std::vector<std::uint32_t> incoming(static_cast<std::size_t>(phases_.nodes()), kOwnInput);
    for (std::int32_t owner = 0; owner < world_; ++owner) {
      if (phases_.node_of(owner) != node_ && stands_for(owner)) {
        builder_.send(owner, chunk_of(owner), sums[owner]);
      }
    }
    for (std::int32_t node = 0; node < phases_.nodes(); ++node) {
      if (node == node_) continue;
      incoming[node] = builder_.recv(phases_.deputy(node, rank_), chunk_of(rank_), phases_.outer_level());
    }
    return incoming;
  }

  void add_nodes(const std::vector<std::uint32_t>& incoming) {
    for (std::int32_t node = 0; node < phases_.nodes(); ++node) {
      if (node == node_) {
        add_node(rank_);
      } else {
        builder_.add(chunk_of(rank_), incoming[node]);
      }
    }
    builder_.decode_sum(chunk_of(rank_));
  }

  std::int32_t rank_;
  std::int32_t world_;
  TwoPhases phases_;
  std::int32_t node_;
  Builder builder_;
  std::vector<std::vector<std::uint32_t>> contributions_;
};

Schedule build(std::int32_t rank, const Topology& topology) {
  return topology.world() == 1 ? single_rank_schedule() : Steps(rank, topology).run();
}

std::uint32_t encodes_of_level(const Topology& topology, std::uint32_t level) {
  const TwoPhases phases(topology);
  const bool inner = level == 0 && phases.some_node_has_two();
  const bool outer = level == phases.outer_level() && phases.nodes() > 1;
  return (inner ? 1U : 0U) + (outer ? 1U : 0U);
}

std::uint32_t encodes(const Topology& topology) {
  const TwoPhases phases(topology);
  return (phases.some_node_has_two() ? 1U : 0U) + (phases.nodes() > 1 ? 1U : 0U);
}

// What it does not stand for inside, and what it stands for in other nodes.
std::uint32_t chunks_sent(const Topology& topology) {
  const TwoPhases phases(topology);
  std::uint32_t most = 0;
  for (std::int32_t rank = 0; rank < topology.world(); ++rank) {
    std::uint32_t sent = 0;
    for (std::int32_t owner = 0; owner < topology.world(); ++owner) {
      const bool stands = phases.deputy(phases.node_of(rank), owner) == rank;
      sent += !stands || phases.node_of(owner) != phases.node_of(rank) ? 1 : 0;
    }
    most = std::max(most, sent);
  }
  return most;
}

}  // namespace

AlgorithmDesc reduce_scatter_hierarchical_algorithm() {
  return {.name = "hierarchical",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .encodes_at = encodes_of_level,
          .collective = Collective::reduce_scatter};
}

}  // namespace ferrule::collectives
