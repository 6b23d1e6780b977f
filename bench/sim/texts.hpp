// Words of the command line that need reading: "2-1024", "8:200gbit,1us", "3:5ms", "1-2:100mbit,1ms".
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "bench/sim/codecs.hpp"
#include "bench/sim/levels.hpp"
#include "ferrule/status.hpp"

namespace ferrule::sim {

inline constexpr std::int32_t kMostRanks = 1 << 20;

/// "8", or "2-1024": from the first, doubled up to the last.
Result<std::vector<std::int32_t>> parse_worlds(std::string_view text);
/// As ferrule-bench's --link.
Result<LinkRate> parse_link(std::string_view text);
/// GROUP:LINK.
Result<Level> parse_level(std::string_view text);
/// RANK:TIME.
Result<LateRank> parse_late(std::string_view text);
/// RANK:LINK or RANK-RANK:LINK, added to the stragglers.
Status parse_slow(std::string_view text, Stragglers& to);
/// "ENCODE,DECODE,ADD,HOP" in nanoseconds a byte; "free" is four zeros.
Result<CodecRates> parse_rates(std::string_view text);

}  // namespace ferrule::sim
