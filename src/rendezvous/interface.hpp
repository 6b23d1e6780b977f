// Which network interface this rank is reached by.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferrule/status.hpp"
#include "rendezvous/socket_address.hpp"

namespace ferrule::rendezvous {

/// One address of one interface; an interface with several has several entries.
struct InterfaceAddress {
  std::string name;
  SocketAddress address;
};

/// Those that are up, in the system's order.
Result<std::vector<InterfaceAddress>> list_interfaces();

struct InterfaceQuery {
  std::vector<InterfaceAddress> interfaces;
  /// FERRULE_SOCKET_IFNAME.
  std::string wanted;
  /// Numeric address of the rendezvous; none for files and stores of the caller's.
  std::optional<SocketAddress> rendezvous;
  /// What the system would send from, to reach the rendezvous ...
  std::optional<SocketAddress> route_source;
  /// ... and to reach the world outside.
  std::optional<SocketAddress> default_source;
  /// All ranks are known to be on one host.
  bool single_host = false;
};

struct InterfaceChoice {
  std::string name;
  std::string ip;
  std::string why;
};

/// The rules, in order: FERRULE_SOCKET_IFNAME; loopback if the rendezvous is there; the interface that routes
/// to the rendezvous; the one that routes outside; the first that is not loopback nor a bridge of containers.
/// Loopback only if all ranks are on one host, or there is nothing else.
Result<InterfaceChoice> choose_interface(const InterfaceQuery& query);

/// For this process: lists interfaces, asks for routes, chooses, and says so on one INFO line.
Result<InterfaceChoice> choose_interface(const std::optional<SocketAddress>& rendezvous, bool single_host);

/// The loopback interface's name; empty where it is not up.
std::string loopback_interface();

/// Does the name pass? "eth,ib": any of these prefixes; "=eth0": exactly; "^docker,lo": none of these
/// prefixes.
bool interface_is_wanted(std::string_view name, std::string_view wanted);

}  // namespace ferrule::rendezvous
