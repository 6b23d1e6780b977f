// Who measures with whom and when: a round robin in which each rank is in one pair at a time (the circle
// method: T. P. Kirkman 1847; one rank stays, the others go round it).
#pragma once

#include <cstdint>

namespace ferrule::probe {

/// world - 1, or world where that is odd: then each rank has a round off.
std::int32_t rounds_of(std::int32_t world);

/// The other rank of `rank`'s pair; -1: a round off.
std::int32_t opponent(std::int32_t rank, std::int32_t round, std::int32_t world);

}  // namespace ferrule::probe
