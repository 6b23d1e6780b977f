// The store at a place: served or found.
#pragma once

#include <memory>
#include <optional>

#include "base/deadline.hpp"
#include "base/secret_key.hpp"
#include "rendezvous/launcher.hpp"
#include "rendezvous/socket_address.hpp"
#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

struct OpenedPlace {
  std::shared_ptr<Store> store;
  std::optional<SocketAddress> address;  ///< of the server, as this rank reaches it
  bool is_server = false;                ///< this process serves it
};

/// Serves the store if that is this rank's part, else waits for its server by the deadline.
/// If all ranks are known to be on this host, at its loopback address whatever the place's.
Result<OpenedPlace> open_place(const Place& place, const World& world, const std::optional<SecretKey>& secret,
                               Deadline deadline);

}  // namespace ferrule::rendezvous
