// One question, one time: chooses how much has to be simulated, and says what it chose.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "bench/sim/engine.hpp"
#include "collectives/schedule.hpp"
#include "ferrule/status.hpp"

namespace ferrule::sim {

/// Which ranks were simulated. But for near_rotation times are the same (tests prove it in small worlds), and
/// only the cost differs.
enum class Mode : std::uint8_t {
  full,           ///< every rank
  rotation,       ///< one group of ranks; all others do the same, moved on
  classes,        ///< one rank of each class of ranks that behave alike
  near_rotation,  ///< as rotation, but other ranks do some computations in another order: an approximation
};
std::string_view mode_name(Mode mode);

struct Question {
  const collectives::AlgorithmDesc* algorithm = nullptr;
  Codecs codecs;
  Cut::Tensor tensor;
  Place place;
  std::size_t slice_bytes = 64512;
  std::uint32_t slices_in_flight = 4;
  double header_bytes = 0;
  double message_cost_ns = 0;
  /// Messages that may be simulated: what time and memory are spent on.
  double most_messages = 5e6;
  bool only_full = false;  ///< every rank and slice, or an error
};

struct Answer {
  Outcome outcome;
  Mode mode = Mode::full;
  std::size_t walkers = 0;  ///< ranks or representatives that were simulated
  std::uint32_t slices = 0;
  /// Fewer than `slices`: the time of the others was extrapolated from the steady rate between this many and
  /// half as many.
  std::uint32_t simulated_slices = 0;
  /// Share by which the tensor was enlarged so that all chunks are equal (rotation only; at most 1 %).
  double padding = 0;
};

/// The error says what is too large and what to do: `unsupported` if it cannot be simulated within
/// most_messages.
Result<Answer> simulate(const Question& question);

}  // namespace ferrule::sim
