// What tells hosts, and containers on a host, apart.
#pragma once

#include <string>

namespace ferrule::rendezvous {

struct HostIdentity {
  std::string name;     ///< host name
  std::string host;     ///< equal for processes that can share memory, and reach each other by loopback
  std::string memory;   ///< equal for processes that can share memory
  std::string network;  ///< equal for processes that reach each other by loopback
};

HostIdentity host_identity();

}  // namespace ferrule::rendezvous
