#include "bench/sim/levels.hpp"

#include <fmt/format.h>

namespace ferrule::sim {

Status Levels::check() const {
  const auto bad = [](std::string text) { return Status(ErrorCode::invalid_argument, std::move(text)); };
  if (levels.empty() || levels.back().group != kEverybody) return bad("the last level must join all ranks");
  if (shared_ports && levels.size() < 2) {
    return bad("ranks can share a port only where there are nodes: add a level inside, as in 8:200gbit,1us");
  }
  std::int32_t inside = 1;
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    const std::int32_t group = levels[i].group;
    if (group <= inside || group % inside != 0) {
      return bad(
          fmt::format("level {}: a group of {} must be larger than the {} ranks of the level inside "
                      "it, and a multiple of them",
                      i, group, inside));
    }
    inside = group;
  }
  return {};
}

std::uint32_t Levels::between(std::int32_t a, std::int32_t b) const {
  std::uint32_t level = 0;
  while (level + 1 < levels.size() && a / levels[level].group != b / levels[level].group) ++level;
  return level;
}

std::int32_t Levels::port_owner(std::int32_t rank, std::uint32_t level) const {
  return shared_ports && level > 0 ? rank / levels[level - 1].group : rank;
}

}  // namespace ferrule::sim
