#include "bench/probe/tournament.hpp"

namespace ferrule::probe {

std::int32_t rounds_of(std::int32_t world) { return world < 2 ? 0 : world - 1 + world % 2; }

// The last place stays; in round r, places that add up to 2 r (modulo the number of others) meet, and r meets
// the last.
std::int32_t opponent(std::int32_t rank, std::int32_t round, std::int32_t world) {
  const std::int32_t going = rounds_of(world);  // places that go round; the last is `going` itself
  const std::int32_t other = rank == going ? round : (2 * round - rank + 2 * going) % going;
  const std::int32_t met = rank != going && other == rank ? going : other;
  return met < world ? met : -1;
}

}  // namespace ferrule::probe
