// Where the ranks of a launcher's job meet.
#pragma once

#include <optional>

#include "rendezvous/launcher.hpp"

namespace ferrule::rendezvous {

/// Nothing for a world of 1 without FERRULE_RENDEZVOUS. `invalid_argument` where the launcher's variables do
/// not say enough, with what to set.
Result<std::optional<Place>> place_for(const Environment& environment, const ProcessFacts& facts,
                                       const World& world);

/// The numeric addresses in Open MPI's contact text "jobid.vpid;tcp://a,b:port;tcp6://[c]:port", loopback
/// left out.
std::vector<std::string> addresses_in_contact(std::string_view contact);

}  // namespace ferrule::rendezvous
