// Where the chunks of a collective lie: in the tensor as all ranks count its elements, in this rank's input
// and in its output.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::plan {

/// Elements [begin, begin + count) of the tensor.
struct Range {
  std::size_t begin = 0;
  std::size_t count = 0;
};

/// Elements of each rank's part, as the caller gives them.
struct Parts {
  /// Of each rank, or of each pair for all_to_all; where `counts` is empty. Else unused.
  std::size_t each = 0;
  /// By rank; all_to_all: what goes to each rank. Empty: all alike.
  std::vector<std::size_t> counts;
  /// all_to_all with counts: what comes from each rank.
  std::vector<std::size_t> recv_counts;

  std::size_t count(std::int32_t rank) const {
    return counts.empty() ? each : counts[static_cast<std::size_t>(rank)];
  }
  std::size_t recv_count(std::int32_t rank) const {
    return recv_counts.empty() ? count(rank) : recv_counts[static_cast<std::size_t>(rank)];
  }

  friend bool operator==(const Parts&, const Parts&) = default;
};

/// Elements that a rank hands over and gets; for collectives of equal shares `parts.each` is the tensor.
struct Extent {
  std::size_t input = 0;
  std::size_t output = 0;
  /// Begin of the part that is the rank's own, in the larger of the two: in place is there.
  std::size_t own_begin = 0;
};
Extent extent_of(const collectives::Contract& contract, std::int32_t rank, const Parts& parts);

/// One rank's view of the chunks.
class Layout {
 public:
  /// Equal shares of `count` elements, in whole blocks.
  static Layout of_shares(std::size_t count, std::uint32_t chunks, std::size_t block);
  /// Each chunk begins a block: parts are of any size. Of all_to_all only the chunks of this rank have
  /// elements here.
  static Layout of_parts(const collectives::Contract& contract, std::int32_t rank, const Parts& parts,
                         std::size_t block);

  /// Slices of at most `elements`, a multiple of the block.
  void set_slice(std::size_t elements) { slice_elements_ = elements; }
  std::size_t slice_elements() const { return slice_elements_; }
  /// As all ranks count: the same range on all of them.
  Range slice(std::uint32_t chunk, std::uint32_t slice) const;
  /// Where the slice begins in this rank's input (and so in its residual), and in its output; of chunks that
  /// it brings or gets only.
  std::size_t input_begin(std::uint32_t chunk, std::uint32_t slice) const;
  std::size_t output_begin(std::uint32_t chunk, std::uint32_t slice) const;
  std::size_t largest_chunk() const { return largest_; }

 private:
  struct Place {
    std::size_t begin = 0;
    std::size_t count = 0;
    std::size_t input = 0;
    std::size_t output = 0;
  };
  Place place(std::uint32_t chunk) const;

  std::size_t slice_elements_ = 0;
  std::size_t largest_ = 0;
  std::size_t count_ = 0;      // of shares
  std::size_t share_ = 0;      // of shares
  std::vector<Place> places_;  // of parts; empty: shares
};

}  // namespace ferrule::plan
