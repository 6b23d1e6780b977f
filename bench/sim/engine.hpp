// The event simulation: every walker runs its program slice by slice as the executor does, one computation at
// a time, while ports carry messages.
#pragma once

#include <cstdint>
#include <vector>

#include "bench/sim/cut.hpp"
#include "bench/sim/network.hpp"
#include "ferrule/status.hpp"

namespace ferrule::sim {

struct Pace {
  std::uint32_t slices = 0;  ///< the first ones of the cut
  std::uint32_t slices_in_flight = 4;
  double header_bytes = 0;     ///< before each message
  double message_cost_ns = 0;  ///< that a send keeps its rank busy
};

struct Outcome {
  double time_ns = 0;               ///< until the last rank is done
  double first_done_ns = 0;         ///< until the first rank is done
  double messages = 0;              ///< simulated: of representatives, not of the ranks they stand for
  double most_busy_ns = 0;          ///< arithmetic of the rank that has most
  double most_sent_bytes = 0;       ///< by one rank, headers included
  std::vector<double> level_bytes;  ///< that crossed each level, all ranks together, headers included
};

/// O(messages * log messages). Memory: 16 bytes a receive and slice in flight. An error if ranks wait for
/// each other for ever.
Result<Outcome> simulate_events(const Network& network, const Cut& cut, const Pace& pace);

}  // namespace ferrule::sim
