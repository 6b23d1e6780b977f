// A rank that comes late on purpose (--jitter), to see what one straggler costs.
#pragma once

#include <chrono>
#include <string_view>

#include "bench/ferrule_bench/options.hpp"
#include "ferrule/status.hpp"

namespace ferrule::bench {

/// "2:500us": rank and longest delay, a number with ns, us, ms or s, more than 0 and at most 10 s.
Result<Jitter> parse_jitter(std::string_view text);

/// How late `rank` is in an iteration: evenly spread over [0, longest delay], a function of seed and
/// iteration only. Zero for other ranks, and without jitter.
std::chrono::nanoseconds lateness(const Options& options, int rank, int iteration);

/// Returns that much later: sleeps, then polls the rest, so that it is exact.
void be_late(std::chrono::nanoseconds delay);

}  // namespace ferrule::bench
