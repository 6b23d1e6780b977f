// The one place that asks an algorithm for a schedule.
#pragma once

#include "bench/sim/network.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::sim {

/// The schedule of a rank.
collectives::Schedule schedule_of(const collectives::AlgorithmDesc& algorithm, std::int32_t rank,
                                  const Place& place);

}  // namespace ferrule::sim
