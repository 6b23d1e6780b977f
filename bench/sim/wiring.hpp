// What full_network and rotation_network share: ports, paths, and finding the receive of a send.
#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/sim/network.hpp"

namespace ferrule::sim {

/// The receives of a program by (peer, ordinal).
class ReceiveIndex {
 public:
  explicit ReceiveIndex(const Program& program);
  /// kNoMessage if there is none.
  std::uint32_t find(std::int32_t peer, std::uint32_t ordinal) const;

 private:
  std::unordered_map<std::uint64_t, std::uint32_t> index_;
};

/// Hands out ports and paths of a place, each at its first use.
class Fabric {
 public:
  Fabric(const Place& place, Network& network);

  /// The wire from one rank to another, up to the receive. The ports are those of `in_owner`, the rank that
  /// stands for the receiver.
  Wire wire(std::int32_t from, std::int32_t to, std::int32_t in_owner);

 private:
  std::uint32_t port(std::int32_t rank, std::uint32_t level);
  std::uint32_t path(std::int32_t from, std::int32_t to, std::uint32_t level);
  std::uint32_t add_path(const Path& path, std::uint32_t level);
  const LinkRate* slow_card(std::int32_t rank, std::uint32_t level) const;

  const Place& place_;
  Network& network_;
  std::unordered_map<std::uint64_t, std::uint32_t> ports_;  // by (level, owner)
  std::map<std::pair<std::int32_t, std::int32_t>, std::uint32_t> pipes_;
};

/// The error of a send that nobody receives.
Status unreceived(const Walker& sender, const Message& message);

double start_of(const Place& place, std::int32_t rank);

}  // namespace ferrule::sim
