// Where rank 0 of a group can be reached.
#pragma once

#include <string>

namespace ferrule::mpi {

/// "tcp://address:port" with a port that was free a moment ago, within FERRULE_PORT_RANGE if that is set.
/// The address is 127.0.0.1 if all ranks are on one host; else that of the interface which
/// rendezvous::choose_interface gives (FERRULE_SOCKET_IFNAME, or the default route).
std::string listening_place(bool one_host);

}  // namespace ferrule::mpi
