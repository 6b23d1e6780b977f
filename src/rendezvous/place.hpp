// Where ranks meet, as people write it ("tcp://host:port", "file:///path"), and the ports that may be used
// for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule::rendezvous {

struct PortRange {
  std::uint16_t first = 0;
  std::uint16_t last = 0;
};

/// "20000-20015" or "20000".
Result<PortRange> parse_port_range(std::string_view text);

/// Who listens.
enum class Server {
  rank_zero,      ///< rank 0, wherever it is
  address_owner,  ///< the first local rank on the host that has the address
};

struct Place {
  enum class Kind { tcp, file };
  Kind kind = Kind::tcp;
  std::vector<std::string> hosts;     ///< names or literals without brackets, all of one host
  std::optional<std::uint16_t> port;  ///< tried first; the only one if fixed_port
  bool fixed_port = false;
  std::string path;  ///< of a file
  /// Names the job: servers of other jobs are passed over. May be empty with a fixed port.
  std::string job;
  Server server = Server::rank_zero;

  /// "tcp://host:port", or what is known of it.
  std::string text() const;
};

/// Parses "tcp://host:port", "tcp://[::1]:port", "tcp://host" (port from FERRULE_PORT_RANGE, or by the rule
/// in docs/rendezvous.md) and "file:///path".
Result<Place> parse_place(std::string_view text);

/// The ports to try, in order: the same list on all ranks of a job. docs/rendezvous.md has the rule.
std::vector<std::uint16_t> candidate_ports(const Place& place, std::optional<PortRange> range);

}  // namespace ferrule::rendezvous
