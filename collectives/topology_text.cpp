// The texts that people write for a topology.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "collectives/topology.hpp"

namespace ferrule::collectives {
namespace {

constexpr std::int32_t kMostRanks = 1 << 20;

std::optional<std::int32_t> number(std::string_view text) {
  std::int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0 || value > kMostRanks) return {};
  return value;
}

std::vector<std::string_view> split(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t at = text.find(separator);
    parts.push_back(text.substr(0, at));
    if (at == std::string_view::npos) return parts;
    text.remove_prefix(at + separator.size());
  }
}

Status bad(std::string_view text, std::string_view why) {
  return Status(
      ErrorCode::invalid_argument,
      fmt::format("topology '{}': {} (expected e.g. '2x4', 2 nodes of 4 ranks; '1+3', nodes of 1 and 3 "
                  "ranks; '0,2-3|1', the ranks of each node, with '||' between groups of nodes)",
                  text.substr(0, 200), why));
}

// "2x2x4": the sizes from the outermost level to the innermost.
Result<Topology> parse_grid(std::string_view text, std::int32_t world) {
  std::vector<std::int32_t> sizes;
  std::int64_t ranks = 1;
  for (const std::string_view part : split(text, "x")) {
    const auto size = number(part);
    if (!size || *size == 0) return bad(text, fmt::format("'{}' is no size", part));
    sizes.push_back(*size);
    ranks *= *size;
    if (ranks > kMostRanks) return bad(text, "too many ranks");
  }
  if (ranks != world) return bad(text, fmt::format("it has {} ranks, the world {}", ranks, world));
  std::vector<std::vector<std::int32_t>> node_of;
  std::int32_t node_ranks = 1;
  for (std::size_t i = sizes.size(); i-- > 1;) {
    node_ranks *= sizes[i];
    auto& level = node_of.emplace_back();
    for (std::int32_t rank = 0; rank < world; ++rank) level.push_back(rank / node_ranks);
  }
  return Topology::make(world, node_of);
}

// "1+3": the sizes of nodes of consecutive ranks.
Result<Topology> parse_sizes(std::string_view text, std::int32_t world) {
  std::vector<std::int32_t> sizes;
  std::int64_t ranks = 0;
  for (const std::string_view part : split(text, "+")) {
    const auto size = number(part);
    if (!size || *size == 0) return bad(text, fmt::format("'{}' is no size", part));
    sizes.push_back(*size);
    ranks += *size;
  }
  if (ranks != world) return bad(text, fmt::format("it has {} ranks, the world {}", ranks, world));
  return Topology::of_sizes(sizes);
}

// "0,2-3|1||4": the ranks of each node.
class Groups {
 public:
  Groups(std::string_view text, std::int32_t world) : text_(text), world_(world) {
    std::size_t bars = 0;
    for (const char c : text) {
      bars = c == '|' ? bars + 1 : 0;
      levels_ = std::max(levels_, bars);
    }
  }

  Result<Topology> run() {
    if (levels_ > kMostLevels) return bad(text_, "too many levels");
    node_of_.assign(levels_, std::vector<std::int32_t>(static_cast<std::size_t>(world_), -1));
    FERRULE_RETURN_IF_ERROR(read(text_, levels_));
    const auto& innermost = node_of_.front();
    const auto missing = std::find(innermost.begin(), innermost.end(), -1);
    if (missing != innermost.end()) {
      return bad(text_, fmt::format("rank {} of {} is missing", missing - innermost.begin(), world_));
    }
    return Topology::make(world_, node_of_);
  }

 private:
  static constexpr std::size_t kMostLevels = 8;

  // A part that is a group of `level`: split it at the separator of that level.
  Status read(std::string_view part, std::size_t level) {
    if (level == 0) return read_ranks(part);
    for (const std::string_view inner : split(part, std::string(level, '|'))) {
      ++next_[level - 1];
      FERRULE_RETURN_IF_ERROR(read(inner, level - 1));
    }
    return {};
  }

  Status read_ranks(std::string_view part) {
    for (const std::string_view range : split(part, ",")) {
      const std::size_t dash = range.find('-');
      const auto first = number(range.substr(0, dash));
      const auto last = dash == std::string_view::npos ? first : number(range.substr(dash + 1));
      if (!first || !last || *first > *last) return bad(text_, fmt::format("'{}' is no rank", range));
      if (*last >= world_)
        return bad(text_, fmt::format("there is no rank {} in a world of {}", *last, world_));
      for (std::int32_t rank = *first; rank <= *last; ++rank) FERRULE_RETURN_IF_ERROR(place(rank));
    }
    return {};
  }

  Status place(std::int32_t rank) {
    const auto index = static_cast<std::size_t>(rank);
    if (node_of_.front()[index] >= 0) return bad(text_, fmt::format("rank {} stands twice", rank));
    for (std::size_t level = 0; level < levels_; ++level) node_of_[level][index] = next_[level];
    return {};
  }

  std::string_view text_;
  std::int32_t world_;
  std::size_t levels_ = 0;
  std::int32_t next_[kMostLevels] = {};  // number of the group that is being read, by level
  std::vector<std::vector<std::int32_t>> node_of_;
};

}  // namespace

Result<Topology> Topology::parse(std::string_view text, std::int32_t world) {
  if (text.find('|') != std::string_view::npos) return Groups(text, world).run();
  if (text.find('+') != std::string_view::npos) return parse_sizes(text, world);
  if (text.find('x') != std::string_view::npos) return parse_grid(text, world);
  return bad(text, "it names no nodes");
}

}  // namespace ferrule::collectives
