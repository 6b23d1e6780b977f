#include "collectives/topology.hpp"

#include <fmt/format.h>

#include <map>
#include <numeric>

namespace ferrule::collectives {
namespace {

// Numbers names in the order in which they come.
template <class Name>
class Numbering {
 public:
  std::int32_t operator()(const Name& name) {
    return numbers_.try_emplace(name, static_cast<std::int32_t>(numbers_.size())).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<Name, std::int32_t> numbers_;
};

}  // namespace

Result<Topology> Topology::make(std::int32_t world, const std::vector<std::vector<std::int32_t>>& node_of) {
  Topology made(world);
  // below[rank]: the rank's member number at the level that is being made, which is its group one level down.
  std::vector<std::int32_t> below(static_cast<std::size_t>(world));
  std::iota(below.begin(), below.end(), 0);
  std::size_t members = below.size();
  for (std::size_t h = 0; h <= node_of.size(); ++h) {
    Level level;
    level.group_of.assign(members, -1);
    Numbering<std::int32_t> numbering;
    for (std::size_t rank = 0; rank < below.size(); ++rank) {
      const auto member = static_cast<std::size_t>(below[rank]);
      const std::int32_t group = h == node_of.size() ? 0 : numbering(node_of[h][rank]);
      std::int32_t& known = level.group_of[member];
      if (known >= 0 && known != group) {
        return Status(ErrorCode::invalid_argument,
                      fmt::format("rank {} shares a node at level {} with a rank of another node at level {}",
                                  rank, h - 1, h));
      }
      if (level.members.size() <= static_cast<std::size_t>(group)) level.members.emplace_back();
      if (known < 0) level.members[static_cast<std::size_t>(group)].push_back(below[rank]);
      known = group;
    }
    for (std::int32_t& member : below) member = level.group_of[static_cast<std::size_t>(member)];
    members = level.members.size();
    made.levels_.push_back(std::move(level));
  }
  return made;
}

Topology Topology::of_sizes(std::span<const std::int32_t> sizes) {
  std::vector<std::int32_t> node_of;
  for (std::size_t node = 0; node < sizes.size(); ++node) {
    node_of.insert(node_of.end(), static_cast<std::size_t>(sizes[node]), static_cast<std::int32_t>(node));
  }
  return *make(static_cast<std::int32_t>(node_of.size()), {node_of});
}

Topology Topology::of_hosts(std::span<const std::string> host_of) {
  Numbering<std::string> numbering;
  std::vector<std::int32_t> node_of;
  for (const std::string& host : host_of) node_of.push_back(numbering(host));
  return *make(static_cast<std::int32_t>(node_of.size()), {node_of});
}

bool Topology::is_used(std::uint32_t level) const {
  for (std::int32_t group = 0; group < groups(level); ++group) {
    if (size(level, group) > 1) return true;
  }
  return false;
}

std::uint32_t Topology::result_level() const {
  std::uint32_t level = levels() - 1;
  while (level > 0 && !is_used(level)) --level;
  return level;
}

std::string Topology::text_of(std::uint32_t level, std::int32_t group) const {
  const std::string separator = level == 0 ? "," : std::string(level, '|');
  std::string text;
  for (std::int32_t i = 0; i < size(level, group); ++i) {
    if (i != 0) text += separator;
    const std::int32_t part = member(level, group, i);
    text += level == 0 ? fmt::format("{}", part) : text_of(level - 1, part);
  }
  return text;
}

std::string Topology::text() const {
  constexpr std::size_t kLongest = 200;
  if (levels_.empty()) return fmt::format("flat {}", world_);
  std::string text = text_of(levels() - 1, 0);
  if (text.size() <= kLongest) return text;
  std::uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char c : text) hash = (hash ^ static_cast<std::uint8_t>(c)) * 0x100000001b3;
  return fmt::format("{} groups of {} ranks, {:016x}", groups(0), world_, hash);
}

}  // namespace ferrule::collectives
