// What one pair of ranks measures of the link between them.
#pragma once

#include <cstdint>

#include "bench/probe/wire.hpp"
#include "ferrule/status.hpp"

namespace ferrule::probe {

struct PairFigures {
  double latency_s = 0;    ///< half of the shortest round trip of a small message
  double bytes_per_s = 0;  ///< from this rank to the other, while nothing goes the other way
};

/// Both ranks of a pair call it, of each other. Some 100 ms on fast links; on slow ones some round trips, and
/// up to 0.6 s and the time of one train each way.
Result<PairFigures> measure_pair(Wire& wire, std::int32_t rank, std::int32_t peer);

}  // namespace ferrule::probe
