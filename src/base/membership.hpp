// Who takes part in a communicator: what ranks that meet hand to a transport that connects them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/secret_key.hpp"
#include "ferrule/status.hpp"

namespace ferrule {

/// Who a rank is, for messages to people and for choosing paths.
struct Peer {
  std::string host;     ///< host name
  std::string host_id;  ///< equal for ranks that share memory, and loopback
  std::int64_t pid = 0;
  std::string address;            ///< numeric address that other hosts reach it by
  std::uint64_t start_ticks = 0;  ///< these two name its process beyond doubt; see ProcessIdentity
  std::uint64_t pid_namespace = 0;
  std::string memory_id{};  ///< equal for ranks that share memory, wherever their network ends
};

/// The ranks of one communicator, the same on all of them.
struct Membership {
  std::int32_t rank = 0;
  std::vector<Peer> peers;         ///< one a rank
  std::uint64_t communicator = 0;  ///< identity of the communicator
  std::string interface;           ///< this rank's network interface, e.g. "eth0"; empty if undecided
  /// Where ranks have authenticated each other: a key of this communicator's alone. A transport lets it prove
  /// that whoever connects is the rank that it says.
  std::optional<SecretKey> link_key;

  std::int32_t size() const { return static_cast<std::int32_t>(peers.size()); }
  bool single_host() const;
  /// Do ranks share memory that are not on one host: containers with an IPC namespace in common, and a
  /// network each?
  bool shares_memory_across_hosts() const;
  /// "rank 2 (host b, pid 4711)"
  std::string describe(std::int32_t rank_of) const;
};

/// Gives every rank's value to every rank: result[r] is what rank r gave under `name`. Blocks, by a deadline.
using Exchange =
    std::function<Result<std::vector<std::string>>(std::string_view name, std::string_view mine)>;

}  // namespace ferrule
