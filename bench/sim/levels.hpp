// Which link joins two ranks: levels, from the innermost (inside a node) to the outermost (all others).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/sim/link_model.hpp"
#include "ferrule/status.hpp"

namespace ferrule::sim {

/// Ranks with the same rank / group are joined by this link, unless an inner level joins them already.
struct Level {
  std::int32_t group = 0;  ///< ranks in a group; the last level has kEverybody
  LinkRate link;
  std::string text;  ///< as given, for tables
};
inline constexpr std::int32_t kEverybody = 0;

/// A rank whose network card (outermost level) is another one.
struct SlowRank {
  std::int32_t rank = 0;
  LinkRate link;
};

/// Two ranks with a pipe of their own between them, one each way.
struct SlowPair {
  std::int32_t first = 0;
  std::int32_t second = 0;
  LinkRate link;
};

/// A rank that begins late.
struct LateRank {
  std::int32_t rank = 0;
  double by_ns = 0;
};

struct Stragglers {
  std::vector<LateRank> late;
  std::vector<SlowRank> slow_ranks;
  std::vector<SlowPair> slow_pairs;

  bool none() const { return late.empty() && slow_ranks.empty() && slow_pairs.empty(); }
};

struct Levels {
  std::vector<Level> levels;  ///< innermost first, never empty
  /// The ranks of a group share one port of the next level (one network card a node); else each has its own.
  bool shared_ports = false;

  /// At least one level, each group larger than the one inside it and a multiple of it, the last for
  /// everybody.
  Status check() const;

  std::uint32_t between(std::int32_t a, std::int32_t b) const;
  /// The same number for ranks that share a port of a level.
  std::int32_t port_owner(std::int32_t rank, std::uint32_t level) const;
  /// Moving all ranks on by this many leaves every pair's level as it is.
  std::int32_t period() const { return levels.size() < 2 ? 1 : levels[levels.size() - 2].group; }
};

}  // namespace ferrule::sim
