#include "bench/sim/schedule_of.hpp"

namespace ferrule::sim {

collectives::Schedule schedule_of(const collectives::AlgorithmDesc& algorithm, std::int32_t rank,
                                  const Place& place) {
  if (algorithm.uses_topology()) return algorithm.build(rank, place.topology);
  return algorithm.build(rank, place.world);
}

}  // namespace ferrule::sim
