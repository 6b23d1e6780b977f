// What the hierarchical reduce-scatter and all-gather share: one exchange inside the nodes, one between them.
#pragma once

#include <cstdint>

#include "collectives/topology.hpp"

namespace ferrule::collectives {

/// Nodes are the groups of level 0 (of a flat world: one, of everybody); all that is further out is one
/// exchange, in the codec of the outermost level that is used.
class TwoPhases {
 public:
  explicit TwoPhases(const Topology& topology) : topology_(topology) {}

  std::int32_t nodes() const { return topology_.groups(0); }
  std::int32_t node_of(std::int32_t rank) const { return topology_.group_of(0, rank); }
  std::int32_t size(std::int32_t node) const { return topology_.size(0, node); }
  std::int32_t member(std::int32_t node, std::int32_t index) const {
    return topology_.member(0, node, index);
  }
  std::uint32_t outer_level() const { return topology_.result_level(); }
  /// Index of a rank in its node.
  std::int32_t place_of(std::int32_t rank) const {
    std::int32_t place = 0;
    while (member(node_of(rank), place) != rank) ++place;
    return place;
  }
  /// The rank that stands for `rank` in a node: itself in its own, else the one in its place, round the node
  /// again where that is smaller.
  std::int32_t deputy(std::int32_t node, std::int32_t rank) const {
    return node == node_of(rank) ? rank : member(node, place_of(rank) % size(node));
  }
  bool some_node_has_two() const { return topology_.is_used(0); }

 private:
  const Topology& topology_;
};

}  // namespace ferrule::collectives
