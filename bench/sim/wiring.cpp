#include "bench/sim/wiring.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ferrule::sim {
namespace {

std::uint64_t key_of(std::int32_t high, std::uint32_t low) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(high)) << 32 | low;
}

}  // namespace

ReceiveIndex::ReceiveIndex(const Program& program) {
  index_.reserve(program.receives.size());
  for (std::uint32_t i = 0; i < program.receives.size(); ++i) {
    const Message& message = program.receives[i];
    index_.emplace(key_of(message.peer, message.ordinal), i);
  }
}

std::uint32_t ReceiveIndex::find(std::int32_t peer, std::uint32_t ordinal) const {
  const auto found = index_.find(key_of(peer, ordinal));
  return found == index_.end() ? kNoMessage : found->second;
}

Fabric::Fabric(const Place& place, Network& network) : place_(place), network_(network) {
  network_.levels = static_cast<std::uint32_t>(place.levels.levels.size());
  for (std::uint32_t level = 0; level < network_.levels; ++level) {
    add_path({.latency_ns = place.levels.levels[level].link.latency_ns}, level);
  }
}

Wire Fabric::wire(std::int32_t from, std::int32_t to, std::int32_t in_owner) {
  const std::uint32_t level = place_.levels.between(from, to);
  return {.path = path(from, to, level), .out_port = port(from, level), .in_port = port(in_owner, level)};
}

const LinkRate* Fabric::slow_card(std::int32_t rank, std::uint32_t level) const {
  if (level + 1 != network_.levels) return nullptr;
  const std::int32_t owner = place_.levels.port_owner(rank, level);
  for (const SlowRank& slow : place_.stragglers.slow_ranks) {
    if (place_.levels.port_owner(slow.rank, level) == owner) return &slow.link;
  }
  return nullptr;
}

std::uint32_t Fabric::port(std::int32_t rank, std::uint32_t level) {
  const auto next = static_cast<std::uint32_t>(network_.ports.size());
  const auto [place, is_new] = ports_.emplace(key_of(place_.levels.port_owner(rank, level), level), next);
  if (is_new) {
    const LinkRate* slow = slow_card(rank, level);
    network_.ports.push_back({(slow != nullptr ? *slow : place_.levels.levels[level].link).ns_per_byte});
  }
  return place->second;
}

// A slow card's latency counts in both directions, the larger one where both ends have one.
std::uint32_t Fabric::path(std::int32_t from, std::int32_t to, std::uint32_t level) {
  const LinkRate* pipe = nullptr;
  for (const SlowPair& slow : place_.stragglers.slow_pairs) {
    const bool here = (slow.first == from && slow.second == to) || (slow.first == to && slow.second == from);
    if (here) pipe = &slow.link;
  }
  const LinkRate* ends[] = {slow_card(from, level), slow_card(to, level)};
  double latency_ns = pipe != nullptr ? pipe->latency_ns : place_.levels.levels[level].link.latency_ns;
  for (const LinkRate* end : ends)
    latency_ns = end != nullptr ? std::max(latency_ns, end->latency_ns) : latency_ns;
  if (pipe == nullptr && ends[0] == nullptr && ends[1] == nullptr) return level;
  const auto [place, is_new] = pipes_.emplace(std::pair(from, to), 0);
  if (is_new) {
    const Path own{.latency_ns = latency_ns,
                   .ns_per_byte = pipe != nullptr ? pipe->ns_per_byte : 0,
                   .serial = pipe != nullptr};
    place->second = add_path(own, level);
  }
  return place->second;
}

std::uint32_t Fabric::add_path(const Path& path, std::uint32_t level) {
  network_.paths.push_back(path);
  network_.path_levels.push_back(level);
  return static_cast<std::uint32_t>(network_.paths.size() - 1);
}

Status unreceived(const Walker& sender, const Message& message) {
  return {ErrorCode::internal, fmt::format("rank {} sends message {} of a slice to rank {}, which does not "
                                           "receive it: run verify() on this algorithm",
                                           sender.rank, message.ordinal, message.peer)};
}

double start_of(const Place& place, std::int32_t rank) {
  double start_ns = 0;
  for (const LateRank& late : place.stragglers.late) {
    if (late.rank == rank) start_ns = std::max(start_ns, late.by_ns);
  }
  return start_ns;
}

}  // namespace ferrule::sim
