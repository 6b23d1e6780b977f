// Message sizes: "64K", "128M", "1.5G", and the sweep between a smallest and a largest one.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule::bench {

/// A number with an optional unit K, M, G or T (powers of 1024, either case, "B" or "iB" may follow).
/// Fractions are cut to whole bytes.
Result<std::uint64_t> parse_bytes(std::string_view text);

/// From `min_bytes` up to `max_bytes`: multiplied by `factor` where that is at least 2, else `step_bytes`
/// apart.
struct SizeRange {
  std::uint64_t min_bytes = std::uint64_t{32} << 20;
  std::uint64_t max_bytes = std::uint64_t{32} << 20;
  std::uint64_t step_bytes = std::uint64_t{1} << 20;
  std::uint64_t factor = 1;
};

/// An error if the range is empty, could not end, or has more than kMaxSizes sizes.
Result<std::vector<std::uint64_t>> sweep(const SizeRange& range);
inline constexpr std::size_t kMaxSizes = 100'000;

}  // namespace ferrule::bench
