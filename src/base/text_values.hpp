// Numbers with units as people write them: "64K", "500ms", "yes". The errors say what is allowed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "ferrule/status.hpp"

namespace ferrule {

/// 1/0, yes/no, true/false, on/off in any case.
Result<bool> parse_flag(std::string_view text);
/// Decimal digits only.
Result<std::uint64_t> parse_count(std::string_view text);
/// "65536", "64K", "1M", "2GiB": powers of 1024. Fractions ("1.5M") must come out as whole bytes.
Result<std::uint64_t> parse_bytes(std::string_view text);
/// "30s", "500ms", "1.5h", "20us", "100ns"; a bare number is seconds. At most 100 years.
Result<std::chrono::nanoseconds> parse_duration(std::string_view text);

/// ASCII only, whatever the locale.
std::string to_lower(std::string_view text);
bool equal_ignoring_case(std::string_view a, std::string_view b);

}  // namespace ferrule
