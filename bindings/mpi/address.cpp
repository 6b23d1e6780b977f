#include "bindings/mpi/address.hpp"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

namespace ferrule::mpi {
namespace {

using Named = std::pair<std::string, std::string>;  // interface, address

std::string text_of(const sockaddr* address) {
  std::array<char, INET_ADDRSTRLEN> text{};
  const auto* ipv4 = reinterpret_cast<const sockaddr_in*>(address);
  ::inet_ntop(AF_INET, &ipv4->sin_addr, text.data(), text.size());
  return text.data();
}

std::vector<Named> addresses() {
  std::vector<Named> found;
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return found;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    const bool up = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_LOOPBACK) == 0;
    if (!up || entry->ifa_addr == nullptr || entry->ifa_addr->sa_family != AF_INET) continue;
    found.emplace_back(entry->ifa_name, text_of(entry->ifa_addr));
  }
  ::freeifaddrs(list);
  return found;
}

std::string address_of_name() {
  std::array<char, 256> name{};
  ::gethostname(name.data(), name.size() - 1);
  addrinfo hints{};
  hints.ai_family = AF_INET;
  addrinfo* list = nullptr;
  if (::getaddrinfo(name.data(), nullptr, &hints, &list) != 0 || list == nullptr) return "";
  std::string text = text_of(list->ai_addr);
  ::freeaddrinfo(list);
  return text;
}

std::string reachable_address() {
  const std::vector<Named> all = addresses();
  if (const char* wanted = std::getenv("FERRULE_SOCKET_IFNAME"); wanted != nullptr && *wanted != '\0') {
    const auto fits = [&](const Named& entry) { return std::string_view(entry.first).starts_with(wanted); };
    if (const auto found = std::ranges::find_if(all, fits); found != all.end()) return found->second;
  }
  const std::string named = address_of_name();
  const bool ours = std::ranges::any_of(all, [&](const Named& entry) { return entry.second == named; });
  if (ours) return named;
  return all.empty() ? "127.0.0.1" : all.front().second;
}

// 0: any. Returns the port, or 0 where it is taken.
int try_port(int wanted) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return 0;
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_ANY);
  address.sin_port = htons(static_cast<std::uint16_t>(wanted));
  socklen_t length = sizeof address;
  int port = 0;
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&address), length) == 0 &&
      ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) == 0) {
    port = ntohs(address.sin_port);
  }
  ::close(fd);
  return port;
}

int free_port() {
  int first = 0;
  int last = 0;
  const char* range = std::getenv("FERRULE_PORT_RANGE");
  const int read = range == nullptr ? 0 : std::sscanf(range, "%d-%d", &first, &last);
  if (read < 1) return try_port(0);
  for (int port = first; port <= (read == 2 ? last : first); ++port) {
    if (const int found = try_port(port); found != 0) return found;
  }
  return first;  // the library will say that it is taken
}

}  // namespace

std::string listening_place(bool one_host) {
  return "tcp://" + (one_host ? std::string("127.0.0.1") : reachable_address()) + ":" +
         std::to_string(free_port());
}

}  // namespace ferrule::mpi
