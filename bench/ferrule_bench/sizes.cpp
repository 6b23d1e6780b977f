#include "bench/ferrule_bench/sizes.hpp"

#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <string>

namespace ferrule::bench {
namespace {

constexpr double kMaxBytes = 1e18;

/// The factor of a unit such as "", "B", "k", "MiB"; 0 if it is none.
double unit_factor(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 1;
  constexpr std::string_view kUnits = "KMGT";
  const auto index = kUnits.find(static_cast<char>(std::toupper(static_cast<unsigned char>(unit[0]))));
  if (index == std::string_view::npos) return 0;
  const std::string_view rest = unit.substr(1);
  if (!rest.empty() && rest != "B" && rest != "iB") return 0;
  return static_cast<double>(std::uint64_t{1} << (10 * (index + 1)));
}

}  // namespace

Result<std::uint64_t> parse_bytes(std::string_view text) {
  double number = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), number, std::chars_format::fixed);
  const auto digits = static_cast<std::size_t>(end - text.data());
  const double factor = unit_factor(text.substr(digits));
  const double bytes = number * factor;
  if (error != std::errc() || factor == 0 || !(bytes >= 0 && bytes <= kMaxBytes)) {
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("'{}' is not a size: expected e.g. 8, 64K, 128M or 1G, at most 1e18 bytes", text));
  }
  return static_cast<std::uint64_t>(bytes);
}

Result<std::vector<std::uint64_t>> sweep(const SizeRange& range) {
  const auto bad = [&](std::string_view why) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("sizes from {} to {} bytes: {}", range.min_bytes, range.max_bytes, why));
  };
  if (range.min_bytes > range.max_bytes) return bad("minbytes (-b) is larger than maxbytes (-e)");
  const bool multiply = range.factor >= 2;
  if (range.min_bytes < range.max_bytes) {
    if (multiply && range.min_bytes == 0)
      return bad("0 times a step factor (-f) stays 0; start at 1 or more");
    if (!multiply && range.step_bytes == 0) return bad("a step (-i) of 0 bytes never gets there");
  }
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t bytes = range.min_bytes; bytes <= range.max_bytes;) {
    if (sizes.size() == kMaxSizes) return bad("more than 100000 sizes; choose a larger step (-i or -f)");
    sizes.push_back(bytes);
    // Written so that neither the product nor the sum can wrap round.
    if (multiply ? bytes > range.max_bytes / range.factor : range.step_bytes > range.max_bytes - bytes) break;
    const std::uint64_t next = multiply ? bytes * range.factor : bytes + range.step_bytes;
    if (next == bytes) break;
    bytes = next;
  }
  return sizes;
}

}  // namespace ferrule::bench
