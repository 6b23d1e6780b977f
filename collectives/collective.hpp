// The collectives, and what each of them owes: which rank brings which chunk, and which rank gets it.
#pragma once

#include <cstdint>
#include <string_view>

namespace ferrule::collectives {

/// Chunks are equal shares of the tensor (all_reduce, broadcast, reduce), or the part of one rank: chunk r is
/// what rank r gets (reduce_scatter, scatter) or brings (all_gather, gather). all_to_all has one for each
/// pair: chunk s * world + d goes from s to d.
enum class Collective : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  barrier,  ///< nobody brings or gets anything; it ends when all ranks have begun it
};
inline constexpr int kCollectiveCount = 9;

/// Its stable name, e.g. "reduce_scatter".
std::string_view name(Collective collective);
constexpr bool is_valid(Collective collective) { return static_cast<int>(collective) < kCollectiveCount; }

/// Contributions are combined; else each chunk is one rank's, and is only moved.
constexpr bool reduces(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::reduce;
}
/// One rank is not like the others.
constexpr bool has_root(Collective collective) {
  return collective == Collective::broadcast || collective == Collective::reduce ||
         collective == Collective::gather || collective == Collective::scatter;
}
/// Each chunk is one rank's (or one pair's), as long as the caller says; else chunks are equal shares.
constexpr bool is_by_rank(Collective collective) {
  return collective == Collective::reduce_scatter || collective == Collective::all_gather ||
         collective == Collective::gather || collective == Collective::scatter ||
         collective == Collective::all_to_all;
}
/// Lossy codecs: the others only move what a rank brings, or are too small a part of training to lose bits.
constexpr bool takes_codecs(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::reduce_scatter ||
         collective == Collective::all_gather;
}
/// Every rank waits for all others before it is done, so that none can run ahead of another.
constexpr bool holds_together(Collective collective) {
  return !has_root(collective) && collective != Collective::all_to_all;
}
/// All ranks get the same.
constexpr bool replicates(Collective collective) {
  return collective == Collective::all_reduce || collective == Collective::all_gather ||
         collective == Collective::broadcast;
}

/// What one call owes.
struct Contract {
  Collective collective = Collective::all_reduce;
  std::int32_t world = 1;
  std::int32_t root = 0;

  /// As many as there must be; 0: any number of equal shares.
  constexpr std::uint32_t chunks() const {
    const auto ranks = static_cast<std::uint32_t>(world);
    if (collective == Collective::all_to_all) return ranks * ranks;
    return is_by_rank(collective) ? ranks : 0;
  }
  /// The chunk's value has this rank's input in it.
  constexpr bool brings(std::int32_t rank, std::uint32_t chunk) const {
    switch (collective) {
      case Collective::all_reduce:
      case Collective::reduce_scatter:
      case Collective::reduce:
        return true;
      case Collective::all_gather:
      case Collective::gather:
        return owner_of(chunk) == rank;
      case Collective::broadcast:
      case Collective::scatter:
        return rank == root;
      case Collective::all_to_all:
        return owner_of(chunk) / world == rank;
      case Collective::barrier:
        break;
    }
    return false;
  }
  /// The chunk's value is in this rank's output.
  constexpr bool gets(std::int32_t rank, std::uint32_t chunk) const {
    switch (collective) {
      case Collective::all_reduce:
      case Collective::all_gather:
      case Collective::broadcast:
        return true;
      case Collective::reduce:
      case Collective::gather:
        return rank == root;
      case Collective::reduce_scatter:
      case Collective::scatter:
        return owner_of(chunk) == rank;
      case Collective::all_to_all:
        return owner_of(chunk) % world == rank;
      case Collective::barrier:
        break;
    }
    return false;
  }

 private:
  static constexpr std::int32_t owner_of(std::uint32_t chunk) { return static_cast<std::int32_t>(chunk); }
};

}  // namespace ferrule::collectives
