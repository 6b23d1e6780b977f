#include "rendezvous/interface.hpp"

#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/log.hpp"
#include "base/settings.hpp"

namespace ferrule::rendezvous {
namespace {

using List = std::vector<InterfaceAddress>;

bool is_link_local(const SocketAddress& address) {
  if (address.family() == AF_INET) {
    const auto* v4 = reinterpret_cast<const sockaddr_in*>(&address.storage);
    return (ntohl(v4->sin_addr.s_addr) >> 16) == 0xa9fe;  // 169.254/16
  }
  return IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_addr);
}

// Bridges and pairs that container engines and hypervisors make: the same address on every host.
bool is_virtual(std::string_view name) {
  constexpr std::string_view kPrefixes[] = {"docker", "br-",    "virbr", "veth",
                                            "cni",    "podman", "lxc",   "flannel"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return name.starts_with(prefix); });
}

// Smaller is better: of the rendezvous' family, not link-local, not loopback, not virtual, IPv4.
int rank_of(const InterfaceAddress& entry, int family) {
  int rank = 0;
  if (entry.address.is_loopback()) rank += 16;
  if (is_virtual(entry.name)) rank += 8;
  if (is_link_local(entry.address)) rank += 4;
  if (family != AF_UNSPEC && entry.address.family() != family) rank += 2;
  if (entry.address.family() != AF_INET) rank += 1;
  return rank;
}

const InterfaceAddress* best_of(const List& list, int family) {
  const auto best =
      std::ranges::min_element(list, {}, [&](const auto& entry) { return rank_of(entry, family); });
  return best == list.end() ? nullptr : &*best;
}

const InterfaceAddress* with_ip(const List& list, const std::optional<SocketAddress>& address) {
  if (!address) return nullptr;
  const auto found =
      std::ranges::find(list, address->ip(), [](const auto& entry) { return entry.address.ip(); });
  return found == list.end() ? nullptr : &*found;
}

InterfaceChoice chosen(const InterfaceAddress& entry, std::string why) {
  return InterfaceChoice{entry.name, entry.address.ip(), std::move(why)};
}

std::string names_of(const List& list) {
  std::string names;
  for (const InterfaceAddress& entry : list) {
    if (names.find(entry.name) == std::string::npos) names += (names.empty() ? "" : ", ") + entry.name;
  }
  return names;
}

Result<InterfaceChoice> choose_wanted(const InterfaceQuery& query) {
  List wanted;
  std::ranges::copy_if(query.interfaces, std::back_inserter(wanted),
                       [&](const auto& entry) { return interface_is_wanted(entry.name, query.wanted); });
  const int family = query.rendezvous ? query.rendezvous->family() : AF_UNSPEC;
  // Among several, the one that routes to the rendezvous is the better one.
  const InterfaceAddress* routed = with_ip(wanted, query.route_source);
  const InterfaceAddress* best = routed != nullptr ? routed : best_of(wanted, family);
  if (best != nullptr) return chosen(*best, fmt::format("FERRULE_SOCKET_IFNAME={}", query.wanted));
  return Status(ErrorCode::invalid_argument,
                fmt::format("FERRULE_SOCKET_IFNAME='{}' fits no interface that is up; there are {}",
                            query.wanted, names_of(query.interfaces)));
}

}  // namespace

bool interface_is_wanted(std::string_view name, std::string_view wanted) {
  const bool exclude = wanted.starts_with('^');
  if (exclude) wanted.remove_prefix(1);
  const bool exact = wanted.starts_with('=');
  if (exact) wanted.remove_prefix(1);
  bool listed = false;
  while (!wanted.empty()) {
    const std::size_t comma = std::min(wanted.find(','), wanted.size());
    const std::string_view item = wanted.substr(0, comma);
    listed |= !item.empty() && (exact ? name == item : name.starts_with(item));
    wanted.remove_prefix(std::min(comma + 1, wanted.size()));
  }
  return listed != exclude;
}

Result<InterfaceChoice> choose_interface(const InterfaceQuery& query) {
  if (!query.wanted.empty()) return choose_wanted(query);
  const bool at_loopback = query.rendezvous && query.rendezvous->is_loopback();
  const InterfaceAddress* routed = with_ip(query.interfaces, query.route_source);
  // A host's own name often stands for 127.0.1.1 in its hosts file: that says nothing about where the others
  // are. So only a job that is known to be on one host, or that meets at 127.0.0.1 or ::1 itself, stays on
  // loopback.
  const bool plain_loopback =
      at_loopback && (query.rendezvous->ip() == "127.0.0.1" || query.rendezvous->ip() == "::1");
  if (at_loopback && (plain_loopback || query.single_host)) {
    if (routed != nullptr) return chosen(*routed, "the ranks meet on this host's loopback");
    const int family = query.rendezvous->family();
    for (const InterfaceAddress& entry : query.interfaces) {
      if (entry.address.is_loopback() && entry.address.family() == family) {
        return chosen(entry, "the ranks meet on this host's loopback");
      }
    }
  }
  if (routed != nullptr && !routed->address.is_loopback()) {
    return chosen(*routed, fmt::format("it routes to the rendezvous at {}", query.rendezvous->ip()));
  }
  if (const auto* outside = with_ip(query.interfaces, query.default_source);
      outside != nullptr && !outside->address.is_loopback()) {
    return chosen(*outside, "it has the default route");
  }
  const int family = query.rendezvous ? query.rendezvous->family() : AF_UNSPEC;
  const InterfaceAddress* best = best_of(query.interfaces, family);
  if (best == nullptr) return Status(ErrorCode::system, "no network interface is up, not even loopback");
  return chosen(*best,
                best->address.is_loopback() ? "no other interface is up" : "nothing is known of routes");
}

Result<List> list_interfaces() {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) {
    return Status(ErrorCode::system,
                  fmt::format("could not list network interfaces: {}", std::strerror(errno)));
  }
  List list;
  for (const ifaddrs* at = all; at != nullptr; at = at->ifa_next) {
    if (at->ifa_addr == nullptr || (at->ifa_flags & IFF_UP) == 0) continue;
    if (at->ifa_addr->sa_family != AF_INET && at->ifa_addr->sa_family != AF_INET6) continue;
    list.push_back({at->ifa_name, make_address(at->ifa_addr)});
  }
  ::freeifaddrs(all);
  return list;
}

Result<InterfaceChoice> choose_interface(const std::optional<SocketAddress>& rendezvous, bool single_host) {
  Result<List> interfaces = list_interfaces();
  if (!interfaces.ok()) return interfaces.status();
  InterfaceQuery query;
  query.interfaces = std::move(interfaces.value());
  query.wanted = settings::text("FERRULE_SOCKET_IFNAME");
  query.rendezvous = rendezvous;
  query.single_host = single_host;
  const auto source = [](const SocketAddress& peer) -> std::optional<SocketAddress> {
    const auto from = source_towards(peer);
    return from.ok() ? std::optional(from.value()) : std::nullopt;
  };
  if (rendezvous) query.route_source = source(*rendezvous);
  // Addresses set aside for documentation: nobody has them, so they take the default route.
  const char* outside = rendezvous && rendezvous->family() == AF_INET6 ? "2001:db8::1" : "192.0.2.1";
  query.default_source = source(resolve(outside, 9, Deadline::never()).value().front());
  Result<InterfaceChoice> choice = choose_interface(query);
  if (choice.ok()) log::info("network: interface {}, address {}: {}", choice->name, choice->ip, choice->why);
  return choice;
}

std::string loopback_interface() {
  const auto interfaces = list_interfaces();
  if (!interfaces.ok()) return {};
  const auto found =
      std::ranges::find_if(*interfaces, [](const auto& entry) { return entry.address.is_loopback(); });
  return found == interfaces->end() ? std::string() : found->name;
}

}  // namespace ferrule::rendezvous
