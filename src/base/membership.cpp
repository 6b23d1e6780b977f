#include "base/membership.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

namespace ferrule {

bool Membership::single_host() const {
  return std::all_of(peers.begin(), peers.end(),
                     [&](const Peer& peer) { return peer.host_id == peers.front().host_id; });
}

bool Membership::shares_memory_across_hosts() const {
  std::map<std::string, const std::string*> hosts;  // by the memory that they share
  return std::any_of(peers.begin(), peers.end(), [&](const Peer& peer) {
    if (peer.memory_id.empty()) return false;
    const auto [entry, is_new] = hosts.emplace(peer.memory_id, &peer.host_id);
    return !is_new && *entry->second != peer.host_id;
  });
}

std::string Membership::describe(std::int32_t rank_of) const {
  if (rank_of < 0 || rank_of >= size()) return fmt::format("rank {}", rank_of);
  const Peer& peer = peers[static_cast<std::size_t>(rank_of)];
  return fmt::format("rank {} (host {}, pid {})", rank_of, peer.host.empty() ? "unknown" : peer.host,
                     peer.pid);
}

}  // namespace ferrule
