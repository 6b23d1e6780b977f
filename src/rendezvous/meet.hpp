// All of it: from a launcher's variables, an address or a store of the caller's to a membership.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.hpp"
#include "base/membership.hpp"
#include "ferrule/status.hpp"
#include "rendezvous/launcher.hpp"
#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

/// Let go of it once the communicator is made: a server that still has clients when its process ends waits
/// for them (2 s at most).
struct Meeting {
  Membership membership;
  Exchange exchange;  ///< holds the store
  std::string where;  ///< e.g. "tcp://10.0.0.1:29400"
};

/// Meets the others of a launcher's world. May be called again for the next communicator, by all ranks in the
/// same order. The server or session that rank 0 makes stays until its process ends.
Result<Meeting> meet(const World& world, Deadline deadline);

/// At "tcp://host:port" (rank 0 serves it) or "file:///path".
Result<Meeting> meet_at(std::string_view place, std::int32_t rank, std::int32_t size, Deadline deadline);

/// Who is meeting, through a store that is there already.
struct Party {
  std::string group;  ///< the same on all ranks, new for each communicator
  std::int32_t rank = 0;
  std::int32_t size = 1;
};
Result<Meeting> meet_through(std::shared_ptr<Store> store, const Party& party, Deadline deadline);

/// This rank's own end of the network, where it is known already.
struct OwnInterface {
  std::string address;  ///< numeric
  std::string name;
};
/// The same, of ranks that have met before: each keeps its interface.
Result<Meeting> meet_again(std::shared_ptr<Store> store, const Party& party, const OwnInterface& interface,
                           Deadline deadline);

}  // namespace ferrule::rendezvous
