#include "transport/registry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace ferrule::transport {

#include "registered_transports.inc"

namespace {

#define FERRULE_TRANSPORT_ENTRY(word) word##_transport(),
// The table is made on first use, so that no constructor runs before main().
const auto& table() {
  static const std::array entries = {FERRULE_REGISTERED_TRANSPORT(FERRULE_TRANSPORT_ENTRY)};
  return entries;
}
#undef FERRULE_TRANSPORT_ENTRY

}  // namespace

std::span<const TransportDesc> transports() { return table(); }

const TransportDesc* find_transport(std::string_view name) {
  const auto all = transports();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const auto& desc) { return desc.name == name; });
  return found == all.end() ? nullptr : &*found;
}

bool Membership::single_host() const {
  return std::all_of(peers.begin(), peers.end(),
                     [&](const Peer& peer) { return peer.host_id == peers.front().host_id; });
}

std::string Membership::describe(std::int32_t rank_of) const {
  if (rank_of < 0 || rank_of >= size()) return fmt::format("rank {}", rank_of);
  const Peer& peer = peers[static_cast<std::size_t>(rank_of)];
  return fmt::format("rank {} (host {}, pid {})", rank_of, peer.host.empty() ? "unknown" : peer.host,
                     peer.pid);
}

}  // namespace ferrule::transport
