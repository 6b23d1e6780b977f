#include "bindings/mpi/address.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>

#include "base/log.hpp"
#include "base/settings.hpp"
#include "rendezvous/interface.hpp"
#include "rendezvous/place.hpp"

namespace ferrule::mpi {
namespace {

// As every rank of Ferrule's chooses it.
std::string reachable_address() {
  const auto choice = rendezvous::choose_interface(std::nullopt, false);
  if (!choice.ok()) {
    log::warn("{}", choice.status().text());
    return "127.0.0.1";
  }
  return choice->ip.find(':') == std::string::npos ? choice->ip : "[" + choice->ip + "]";
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
  const std::string text = settings::text("FERRULE_PORT_RANGE");
  if (text.empty()) return try_port(0);
  const auto range = rendezvous::parse_port_range(text);
  if (!range.ok()) return try_port(0);  // the library refuses it, and says why
  for (int port = range->first; port <= range->last; ++port) {
    if (const int found = try_port(port); found != 0) return found;
  }
  return range->first;  // the library will say that it is taken
}

}  // namespace

std::string listening_place(bool one_host) {
  return "tcp://" + (one_host ? std::string("127.0.0.1") : reachable_address()) + ":" +
         std::to_string(free_port());
}

}  // namespace ferrule::mpi
