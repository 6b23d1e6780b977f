// Which ranks are near each other: nodes of ranks, groups of nodes, and so on to the whole world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule::collectives {

/// A tree over the ranks. At level 0 the members of a group are ranks, at level h they are the groups of
/// level h-1; the last level is one group of everything. Groups and members are in the order of their lowest
/// rank, and may be of any size, 1 included.
///
/// "Levels" counts the exchanges, from the innermost: a flat world has 1, hosts have 2 (inside a host,
/// between hosts), racks of hosts have 3.
class Topology {
 public:
  /// Flat: all ranks are alike. Implicit on purpose: most algorithms need to know no more than the world.
  Topology(std::int32_t world) : world_(world) {}  // NOLINT(google-explicit-constructor)

  /// node_of[h][rank] names the rank's group at level h, innermost first, by any number; the level of the
  /// whole world is left out. Error: ranks of one group are in different groups further out.
  static Result<Topology> make(std::int32_t world, const std::vector<std::vector<std::int32_t>>& node_of);
  /// Nodes of these many consecutive ranks: {1, 3} is {0}, {1, 2, 3}.
  static Topology of_sizes(std::span<const std::int32_t> sizes);
  /// Ranks with equal names share a node.
  static Topology of_hosts(std::span<const std::string> host_of);
  /// "2x4": 2 nodes of 4 ranks; "2x2x4": 2 racks of 2 nodes of 4. "1+3": nodes of 1 and 3 ranks. "0,2-3|1":
  /// ranks 0, 2 and 3, and rank 1; "0|1||2,3": "||" parts groups of nodes, "|||" groups of those. The text
  /// must account for exactly `world` ranks.
  static Result<Topology> parse(std::string_view text, std::int32_t world);

  std::int32_t world() const { return world_; }
  std::uint32_t levels() const { return levels_.empty() ? 1 : static_cast<std::uint32_t>(levels_.size()); }
  std::int32_t groups(std::uint32_t level) const {
    return levels_.empty() ? 1 : static_cast<std::int32_t>(levels_[level].members.size());
  }
  /// Group of level `level` that a member (a rank, or a group of level-1) is in.
  std::int32_t group_of(std::uint32_t level, std::int32_t member) const {
    return levels_.empty() ? 0 : levels_[level].group_of[static_cast<std::size_t>(member)];
  }
  std::int32_t size(std::uint32_t level, std::int32_t group) const {
    return levels_.empty() ? world_ : static_cast<std::int32_t>(members(level, group).size());
  }
  /// The index-th member of a group.
  std::int32_t member(std::uint32_t level, std::int32_t group, std::int32_t index) const {
    return levels_.empty() ? index : members(level, group)[static_cast<std::size_t>(index)];
  }
  /// Some group of the level has two members or more: bytes move there.
  bool is_used(std::uint32_t level) const;
  /// The outermost level that is used, 0 if none is. Results are encoded there, and go everywhere as they
  /// are.
  std::uint32_t result_level() const;

  /// Canonical: equal for equal trees, e.g. "0,1|2,3", and "flat 4" for a flat world. Longer than 200
  /// characters: a digest.
  std::string text() const;

 private:
  struct Level {
    std::vector<std::int32_t> group_of;              // by member
    std::vector<std::vector<std::int32_t>> members;  // by group
  };
  const std::vector<std::int32_t>& members(std::uint32_t level, std::int32_t group) const {
    return levels_[level].members[static_cast<std::size_t>(group)];
  }
  std::string text_of(std::uint32_t level, std::int32_t group) const;

  std::int32_t world_;
  std::vector<Level> levels_;  // empty: flat
};

}  // namespace ferrule::collectives
