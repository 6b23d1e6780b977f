#include "rendezvous/socket_address.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <future>
#include <thread>

#include "base/descriptor.hpp"
#include "base/signals.hpp"

namespace ferrule::rendezvous {
namespace {

struct LookUp {
  int error = 0;
  std::vector<SocketAddress> addresses;
};

LookUp look_up(const std::string& host, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* list = nullptr;
  LookUp result;
  result.error = ::getaddrinfo(host.c_str(), nullptr, &hints, &list);
  if (result.error != 0) return result;
  for (const addrinfo* at = list; at != nullptr; at = at->ai_next) {
    if (at->ai_family != AF_INET && at->ai_family != AF_INET6) continue;
    const SocketAddress address = make_address(at->ai_addr);
    const auto same = [&](const SocketAddress& other) { return other.ip() == address.ip(); };
    if (std::ranges::none_of(result.addresses, same)) result.addresses.push_back(address);
  }
  ::freeaddrinfo(list);
  std::ranges::stable_sort(result.addresses, {},
                           [](const SocketAddress& a) { return a.family() != AF_INET; });
  return result;
}

// A thread of its own, not std::async: its future would wait for the look-up when it is destroyed.
LookUp look_up_by(const std::string& host, Deadline deadline) {
  std::promise<LookUp> promise;
  std::future<LookUp> future = promise.get_future();
  {
    const SignalsHeld held;
    std::thread([host, answer = std::move(promise)]() mutable {
      answer.set_value(look_up(host, 0));
    }).detach();
  }
  const auto wait = std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::hours(1));
  if (future.wait_for(wait) == std::future_status::ready) return future.get();
  return LookUp{EAI_AGAIN, {}};
}

}  // namespace

std::uint16_t SocketAddress::port() const {
  const auto* v4 = reinterpret_cast<const sockaddr_in*>(&storage);
  const auto* v6 = reinterpret_cast<const sockaddr_in6*>(&storage);
  return ntohs(family() == AF_INET ? v4->sin_port : v6->sin6_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET) {
    reinterpret_cast<sockaddr_in*>(&storage)->sin_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in6*>(&storage)->sin6_port = htons(port);
  }
}

std::string SocketAddress::ip() const {
  std::array<char, NI_MAXHOST> text{};
  const int error = ::getnameinfo(get(), bytes, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST);
  return error == 0 ? text.data() : "?";
}

std::string SocketAddress::text() const { return host_and_port(ip(), port()); }

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage)->sin_addr.s_addr) >> 24) == 127;
  }
  const in6_addr& v6 = reinterpret_cast<const sockaddr_in6*>(&storage)->sin6_addr;
  return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

SocketAddress make_address(const sockaddr* address) {
  SocketAddress result;
  result.bytes = address->sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
  std::memcpy(&result.storage, address, result.bytes);
  return result;
}

std::string host_and_port(std::string_view host, std::uint16_t port) {
  const bool v6 = host.find(':') != std::string_view::npos;
  return v6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

Result<std::vector<SocketAddress>> resolve(std::string_view host, std::uint16_t port, Deadline deadline) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string name(host);
  LookUp found = look_up(name, AI_NUMERICHOST);
  if (found.error != 0) found = look_up_by(name, deadline);
  if (found.error != 0 || found.addresses.empty()) {
    const char* why = found.error == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(found.error);
    return Status(ErrorCode::system, fmt::format("could not find the address of '{}': {}", name, why));
  }
  for (SocketAddress& address : found.addresses) address.set_port(port);
  return std::move(found.addresses);
}

Result<SocketAddress> source_towards(const SocketAddress& peer) {
  SocketAddress to = peer;
  if (to.port() == 0)
    to.set_port(9);  // any port will do: connect() of a datagram socket only asks for the route
  const Descriptor socket(::socket(to.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!socket || ::connect(socket.get(), to.get(), to.bytes) != 0) {
    return Status(ErrorCode::system, fmt::format("no route to {}: {}", to.ip(), std::strerror(errno)));
  }
  SocketAddress from;
  from.bytes = sizeof(from.storage);
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&from.storage), &from.bytes) != 0) {
    return Status(ErrorCode::system, fmt::format("getsockname: {}", std::strerror(errno)));
  }
  from.set_port(0);
  return from;
}

}  // namespace ferrule::rendezvous
