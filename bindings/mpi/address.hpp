// Where rank 0 of a group can be reached.
#pragma once

#include <string>

namespace ferrule::mpi {

/// "tcp://address:port" with a port that was free a moment ago, within FERRULE_PORT_RANGE if that is set.
/// The address is 127.0.0.1 if all ranks are on one host; else that of FERRULE_SOCKET_IFNAME's interface, or
/// the one that this host's name stands for, or the first that is no loopback.
std::string listening_place(bool one_host);

}  // namespace ferrule::mpi
