// Which algorithm, when the caller does not say: of those that the table admits, the one that the cost model
// expects to be fastest. The same on all ranks that have the same model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

#include "collectives/schedule.hpp"
#include "ferrule/status.hpp"
#include "ferrule/types.hpp"
#include "plan/cost_model.hpp"

namespace ferrule::plan {

/// A row of the selection table: an algorithm and where it may be chosen.
struct Candidate {
  enum class Applies : std::uint8_t {
    any,
    wide_exact,  ///< raw sums that lose nothing between steps: f32, f64 and integers, not f16 and bf16
    when_named,  ///< never chosen; the row is for its rounds
  };

  std::string_view algorithm;
  Applies applies = Applies::any;
  std::int32_t max_world = std::numeric_limits<std::int32_t>::max();
  std::size_t max_bytes = std::numeric_limits<std::size_t>::max();  ///< of the encoded tensor
  double (*rounds)(std::int32_t world) = nullptr;  ///< messages one after another on the longest path
  collectives::Collective collective = collectives::Collective::all_reduce;
};

std::span<const Candidate> selection_table();
bool admits(const Candidate& candidate, const Situation& situation);

/// Rounds of an algorithm; 2 for one that is not in the table.
double rounds_of(const collectives::AlgorithmDesc& algorithm, std::int32_t world);

struct Choice {
  const collectives::AlgorithmDesc* algorithm = nullptr;
  double seconds = 0;
};

/// Of equally fast ones, the first in the table. An error only if a row names an algorithm that this build
/// lacks, or no row admits the situation.
Result<Choice> choose_algorithm(const Situation& situation, const LinkModel& link);

/// The most encodes one after another that any choice for this world, dtype and codec has, whatever the size
/// and the link.
std::uint32_t most_encodes(std::int32_t world, DType dtype, bool exact);

/// Slices that must be under way to keep the link busy while the first ones cross it: `at_least`, or more
/// where latency is long for the bandwidth.
std::uint32_t slices_to_fill(const Shape& shape, double rounds, std::size_t slot_bytes, const LinkModel& link,
                             std::uint32_t at_least);

}  // namespace ferrule::plan
