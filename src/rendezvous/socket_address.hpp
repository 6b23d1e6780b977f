// Numeric socket addresses of both families, and turning names into them by a deadline.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.hpp"
#include "ferrule/status.hpp"

namespace ferrule::rendezvous {

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t bytes = 0;

  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
  int family() const { return storage.ss_family; }
  std::uint16_t port() const;
  void set_port(std::uint16_t port);
  /// Without the port: "10.0.0.1", "fe80::1%eth0".
  std::string ip() const;
  /// "10.0.0.1:29400", "[::1]:29400".
  std::string text() const;
  bool is_loopback() const;
};

SocketAddress make_address(const sockaddr* address);

/// "host:port", with brackets around IPv6 literals.
std::string host_and_port(std::string_view host, std::uint16_t port);

/// Addresses of a name or a literal (with or without brackets), IPv4 first, without duplicates. Name servers
/// can take longer than any deadline: then the look-up is left to end on a thread of its own.
Result<std::vector<SocketAddress>> resolve(std::string_view host, std::uint16_t port, Deadline deadline);

/// The address that the system sends from to reach `peer`; no packet is sent.
Result<SocketAddress> source_towards(const SocketAddress& peer);

}  // namespace ferrule::rendezvous
