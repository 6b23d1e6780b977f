#include "base/text_values.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>

namespace ferrule {
namespace {

constexpr const char* kFlagHelp = "1 or 0 (also yes/no, true/false, on/off)";
constexpr const char* kCountHelp = "a whole number, e.g. 4";
constexpr const char* kBytesHelp = "bytes, with K, M or G for powers of 1024, e.g. 64K";
constexpr const char* kDurationHelp = "a duration with ns, us, ms, s, m or h, e.g. 30s or 500ms";

Status not_allowed(std::string_view text, const char* allowed) {
  return Status(ErrorCode::invalid_argument, fmt::format("'{}' is not {}", text.substr(0, 100), allowed));
}

struct Unit {
  std::string_view name;
  double factor;
};

// A decimal number without sign or exponent, then one of the units; or nothing.
std::optional<double> scaled_number(std::string_view text, std::span<const Unit> units) {
  const std::size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double number = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + digits, number);
  if (digits == 0 || error != std::errc() || end != text.data() + digits) return std::nullopt;
  const std::string unit = to_lower(text.substr(digits));
  for (const Unit& candidate : units) {
    if (unit == candidate.name) return number * candidate.factor;
  }
  return std::nullopt;
}

}  // namespace

std::string to_lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return lower;
}

bool equal_ignoring_case(std::string_view a, std::string_view b) { return to_lower(a) == to_lower(b); }

Result<bool> parse_flag(std::string_view text) {
  const std::string lower = to_lower(text);
  for (const std::string_view yes : {"1", "yes", "true", "on"}) {
    if (lower == yes) return true;
  }
  for (const std::string_view no : {"0", "no", "false", "off"}) {
    if (lower == no) return false;
  }
  return not_allowed(text, kFlagHelp);
}

Result<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) {
    return not_allowed(text, kCountHelp);
  }
  return value;
}

Result<std::uint64_t> parse_bytes(std::string_view text) {
  // A bare number keeps all 64 bits; with a unit it goes through a double, exact up to 2^53.
  if (const auto plain = parse_count(text); plain.ok()) return plain;
  static constexpr Unit kUnits[] = {
      {"b", 1},       {"k", 0x1p10},   {"kb", 0x1p10},  {"kib", 0x1p10}, {"m", 0x1p20},
      {"mb", 0x1p20}, {"mib", 0x1p20}, {"g", 0x1p30},   {"gb", 0x1p30},  {"gib", 0x1p30},
      {"t", 0x1p40},  {"tb", 0x1p40},  {"tib", 0x1p40},
  };
  const std::optional<double> value = scaled_number(text, kUnits);
  if (!value || *value > 0x1p53 || *value != std::floor(*value)) return not_allowed(text, kBytesHelp);
  return static_cast<std::uint64_t>(*value);
}

Result<std::chrono::nanoseconds> parse_duration(std::string_view text) {
  static constexpr Unit kUnits[] = {{"", 1e9},   {"s", 1e9},  {"ms", 1e6},  {"us", 1e3},
                                    {"ns", 1.0}, {"m", 60e9}, {"h", 3600e9}};
  constexpr double kLongest = 100.0 * 365 * 24 * 3600e9;  // fits 63 bits of nanoseconds
  const std::optional<double> value = scaled_number(text, kUnits);
  if (!value || *value > kLongest) return not_allowed(text, kDurationHelp);
  return std::chrono::nanoseconds(static_cast<std::int64_t>(*value));
}

}  // namespace ferrule
