// Transports by name.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/deadline.hpp"
#include "base/membership.hpp"
#include "ferrule/status.hpp"
#include "transport/transport.hpp"

namespace ferrule::transport {

using ferrule::Exchange;
using ferrule::Membership;
using ferrule::Peer;

/// One per folder, listed in FERRULE_TRANSPORTS (src/transport/CMakeLists.txt).
struct TransportDesc {
  std::string_view name;
  bool cross_process;  ///< ranks may be different processes
  Result<std::unique_ptr<Transport>> (*connect)(const Membership& membership, const Exchange& exchange,
                                                Deadline deadline);
};

std::span<const TransportDesc> transports();
/// By name, or null.
const TransportDesc* find_transport(std::string_view name);

}  // namespace ferrule::transport
