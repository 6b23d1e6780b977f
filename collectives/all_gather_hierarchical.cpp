// Hierarchical: a part goes to one rank of each other node, its owner's deputy there (TwoPhases), and from
// that one to the rest of the node. Between nodes moves 1/size of what direct moves there. The bytes are
// those of the outermost level everywhere: encoded once, so that all ranks decode the same.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"
#include "collectives/two_phases.hpp"

namespace ferrule::collectives {
namespace {

constexpr std::uint32_t chunk_of(std::int32_t owner) { return static_cast<std::uint32_t>(owner); }

class Steps {
 public:
  Steps(std::int32_t rank, const Topology& topology)
      : rank_(rank),
        world_(topology.world()),
        phases_(topology),
        node_(phases_.node_of(rank)),
        builder_(rank, world_, static_cast<std::uint32_t>(world_)),
        parts_(static_cast<std::size_t>(world_), kOwnInput) {}

  Schedule run() {
    parts_[rank_] = builder_.encode_input(chunk_of(rank_), phases_.outer_level());
    exchange_between_nodes();
    builder_.decode(chunk_of(rank_), parts_[rank_]);  // between the batches
    exchange_in_node();
    for (std::int32_t owner = 0; owner < world_; ++owner) {
      if (owner != rank_) builder_.decode(chunk_of(owner), parts_[owner]);
    }
    return builder_.take();
  }

 private:
  void receive(std::int32_t from, std::int32_t owner) {
    parts_[owner] = builder_.recv(from, chunk_of(owner), phases_.outer_level());
  }

  void exchange_between_nodes() {
    for (std::int32_t node = 0; node < phases_.nodes(); ++node) {
      if (node != node_) builder_.send(phases_.deputy(node, rank_), chunk_of(rank_), parts_[rank_]);
    }
    for (std::int32_t owner = 0; owner < world_; ++owner) {
      if (phases_.node_of(owner) != node_ && phases_.deputy(node_, owner) == rank_) receive(owner, owner);
    }
  }

  void exchange_in_node() {
    const std::int32_t size = phases_.size(node_);
    const std::int32_t place = phases_.place_of(rank_);
    for (std::int32_t i = 1; i < size; ++i) {
      const std::int32_t to = phases_.member(node_, wrap(place + i, size));
      const std::int32_t from = phases_.member(node_, wrap(place - i, size));
      for (std::int32_t owner = 0; owner < world_; ++owner) {
        if (phases_.deputy(node_, owner) == rank_) builder_.send(to, chunk_of(owner), parts_[owner]);
      }
      for (std::int32_t owner = 0; owner < world_; ++owner) {
        if (phases_.deputy(node_, owner) == from) receive(from, owner);
      }
    }
  }

  std::int32_t rank_;
  std::int32_t world_;
  TwoPhases phases_;
  std::int32_t node_;
  Builder builder_;
  std::vector<std::uint32_t> parts_;  // slots by owner
};

Schedule build(std::int32_t rank, const Topology& topology) {
  return topology.world() == 1 ? single_rank_schedule() : Steps(rank, topology).run();
}

std::uint32_t encodes(const Topology& topology) { return topology.world() == 1 ? 0 : 1; }
std::uint32_t encodes_of_level(const Topology& topology, std::uint32_t level) {
  return topology.world() > 1 && level == topology.result_level() ? 1 : 0;
}

std::uint32_t chunks_sent(const Topology& topology) {
  const TwoPhases phases(topology);
  std::uint32_t most = 0;
  for (std::int32_t rank = 0; rank < topology.world(); ++rank) {
    const std::int32_t node = phases.node_of(rank);
    std::uint32_t stands_for = 0;
    for (std::int32_t owner = 0; owner < topology.world(); ++owner) {
      stands_for += phases.deputy(node, owner) == rank ? 1 : 0;
    }
    const auto others = static_cast<std::uint32_t>(phases.size(node) - 1);
    most = std::max(most, static_cast<std::uint32_t>(phases.nodes() - 1) + stands_for * others);
  }
  return most;
}

}  // namespace

AlgorithmDesc all_gather_hierarchical_algorithm() {
  return {.name = "hierarchical",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .encodes_at = encodes_of_level,
          .collective = Collective::all_gather};
}

}  // namespace ferrule::collectives
