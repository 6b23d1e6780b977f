#include "transport/decorators/link.hpp"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>

namespace ferrule::transport {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

constexpr Unit kBandwidths[] = {{"kbit", 1e3}, {"mbit", 1e6}, {"gbit", 1e9}, {"tbit", 1e12}};
constexpr Unit kTimes[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};  // in nanoseconds

constexpr double kMaxBitsPerSecond = 1e15;
constexpr double kMinBitsPerSecond = 1e3;
constexpr double kMaxLatencyNs = 60e9;

/// "2.5gbit" in these units, if its unit is among them and the number is a plain positive decimal.
template <std::size_t N>
std::optional<double> read(std::string_view word, const Unit (&units)[N]) {
  double number = 0;
  const char* const end = word.data() + word.size();
  const auto [rest, error] = std::from_chars(word.data(), end, number, std::chars_format::fixed);
  if (error != std::errc{} || !(number >= 0)) return std::nullopt;
  const std::string_view suffix(rest, static_cast<std::size_t>(end - rest));
  for (const Unit& unit : units) {
    if (suffix == unit.name) return number * unit.factor;
  }
  return std::nullopt;
}

Status bad(std::string_view text, std::string why) {
  return {ErrorCode::invalid_argument,
          fmt::format(
              "link '{}': {} (expected a bandwidth in kbit, mbit, gbit or tbit, a latency in us, ms or s, "
              "or both, as in 1gbit,1ms)",
              text.substr(0, 100), std::move(why))};
}

}  // namespace

Result<LinkSpec> LinkSpec::parse(std::string_view text) {
  LinkSpec spec;
  bool has_bandwidth = false;
  bool has_latency = false;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view word = rest.substr(0, comma);
    if (const auto bits = read(word, kBandwidths); bits.has_value()) {
      if (std::exchange(has_bandwidth, true)) return bad(text, "it has two bandwidths");
      if (*bits < kMinBitsPerSecond || *bits > kMaxBitsPerSecond) {
        return bad(text, fmt::format("'{}' is outside 1kbit to 1000tbit", word));
      }
      spec.bits_per_second = *bits;
    } else if (const auto ns = read(word, kTimes); ns.has_value()) {
      if (std::exchange(has_latency, true)) return bad(text, "it has two latencies");
      if (*ns > kMaxLatencyNs) return bad(text, fmt::format("'{}' is longer than 60s", word));
      spec.latency = std::chrono::nanoseconds(std::llround(*ns));
    } else {
      return bad(text, fmt::format("'{}' is neither", word.substr(0, 40)));
    }
    if (comma == std::string_view::npos) return spec;
    rest = rest.substr(comma + 1);
  }
}

std::string LinkSpec::to_string() const {
  const double us = std::chrono::duration<double, std::micro>(latency).count();
  if (bits_per_second == 0) return fmt::format("{}us", us);
  const bool giga = bits_per_second >= 1e9;
  return fmt::format("{}{},{}us", bits_per_second / (giga ? 1e9 : 1e6), giga ? "gbit" : "mbit", us);
}

}  // namespace ferrule::transport
