#include "bench/sim/texts.hpp"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <utility>

#include "transport/decorators/link.hpp"

namespace ferrule::sim {
namespace {

constexpr double kMostRate = 1e6;  // nanoseconds a byte

Status bad(std::string_view text, std::string_view why) {
  return {ErrorCode::invalid_argument, fmt::format("'{}': {}", text.substr(0, 100), why)};
}

/// A whole number and nothing else.
std::optional<std::int32_t> number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

std::pair<std::string_view, std::string_view> split(std::string_view text, char at) {
  const auto where = text.find(at);
  if (where == std::string_view::npos) return {text, {}};
  return {text.substr(0, where), text.substr(where + 1)};
}

}  // namespace

Result<std::vector<std::int32_t>> parse_worlds(std::string_view text) {
  const auto [first_text, last_text] = split(text, '-');
  const auto first = number(first_text);
  const auto last = last_text.empty() ? first : number(last_text);
  const bool dash = text.find('-') != std::string_view::npos;
  if (!first || !last || (dash && last_text.empty()) || *first < 1 || *last < *first || *last > kMostRanks) {
    return bad(text,
               fmt::format("expected ranks, e.g. 8, or 2-1024 for 2, 4, 8, ..., 1024; 1 to {}", kMostRanks));
  }
  std::vector<std::int32_t> worlds;
  for (std::int64_t world = *first; world <= *last; world *= 2)
    worlds.push_back(static_cast<std::int32_t>(world));
  return worlds;
}

Result<LinkRate> parse_link(std::string_view text) {
  const auto spec = transport::LinkSpec::parse(text);
  if (!spec.ok()) return spec.status();
  LinkRate link;
  link.latency_ns = static_cast<double>(spec->latency.count());
  link.ns_per_byte = spec->bits_per_second == 0 ? 0 : 8e9 / spec->bits_per_second;
  return link;
}

Result<Level> parse_level(std::string_view text) {
  const auto [group_text, link_text] = split(text, ':');
  const auto group = number(group_text);
  if (!group || *group < 2 || *group > kMostRanks) {
    return bad(text, "expected RANKS:LINK with at least 2 ranks, e.g. 8:200gbit,1us");
  }
  const auto link = parse_link(link_text);
  if (!link.ok()) return link.status();
  return Level{*group, *link, std::string(link_text)};
}

Result<LateRank> parse_late(std::string_view text) {
  const auto [rank_text, time_text] = split(text, ':');
  const auto rank = number(rank_text);
  const auto time = transport::LinkSpec::parse(time_text);
  if (!rank || *rank < 0 || !time.ok() || time->bits_per_second != 0) {
    return bad(text, "expected RANK:TIME with a time in us, ms or s, at most 60s, e.g. 3:5ms");
  }
  return LateRank{*rank, static_cast<double>(time->latency.count())};
}

Status parse_slow(std::string_view text, Stragglers& to) {
  const auto [who, link_text] = split(text, ':');
  const auto [first_text, second_text] = split(who, '-');
  const bool pair = who.find('-') != std::string_view::npos;
  const auto first = number(first_text);
  const auto second = pair ? number(second_text) : first;
  if (!first || !second || *first < 0 || *second < 0) {
    return bad(text, "expected RANK:LINK or RANK-RANK:LINK, e.g. 3:100mbit,1ms or 1-2:100mbit");
  }
  const auto link = parse_link(link_text);
  if (!link.ok()) return link.status();
  if (pair) {
    to.slow_pairs.push_back({*first, *second, *link});
  } else {
    to.slow_ranks.push_back({*first, *link});
  }
  return {};
}

Result<CodecRates> parse_rates(std::string_view text) {
  if (text == "free") return CodecRates{};
  std::array<double, 4> rates{};
  std::string_view rest = text;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const auto [end, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), rates[i], std::chars_format::fixed);
    rest = rest.substr(static_cast<std::size_t>(end - rest.data()));
    const bool comma = i + 1 < rates.size();
    const bool valid = error == std::errc() && rates[i] >= 0 && rates[i] <= kMostRate;
    if (!valid || (comma ? !rest.starts_with(',') : !rest.empty())) {
      return bad(
          text,
          "expected measure, free, or ENCODE,DECODE,ADD,HOP in nanoseconds a byte, e.g. 0.2,0.1,0.1,0.3");
    }
    if (comma) rest.remove_prefix(1);
  }
  return CodecRates{rates[0], rates[1], rates[2], rates[3]};
}

}  // namespace ferrule::sim
