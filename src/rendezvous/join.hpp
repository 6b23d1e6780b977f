// Ranks that share a store learn of each other and agree that they belong together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/deadline.hpp"
#include "base/membership.hpp"
#include "base/process.hpp"
#include "base/secret_key.hpp"
#include "ferrule/status.hpp"
#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

struct JoinRequest {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::string address;    ///< numeric, of the interface
  std::string interface;  ///< name
  std::string version;    ///< of the library; must be the same on all ranks. Empty: this library's
  std::optional<SecretKey> secret = std::nullopt;  ///< of the job. Then the membership gets a link key
  /// Name of the loopback interface: the membership's where all ranks turn out to be on one host, so that
  /// nothing listens where others could reach it. Empty: `interface` stays.
  std::string loopback = {};
};

/// The store must be this group's alone (PrefixStore), and used for one join. Errors, the same on all ranks
/// that can still be told: `timeout`: which ranks did not arrive. `mismatch`: world sizes or versions that
/// differ, or two processes that claim one rank, naming both. `system`: a rank on another host that offers a
/// loopback address.
Result<Membership> join(Store& store, const JoinRequest& request, Deadline deadline);

/// For transports to give each other their addresses. All ranks must call it in the same order.
Exchange make_exchange(std::shared_ptr<Store> store, std::int32_t rank, std::int32_t size, Deadline deadline,
                       std::function<Status()> lost = {});

/// `peer_lost` once one of them on this host has ended; see Gathering::lost.
Status look_for_deaths(const Membership& membership);

}  // namespace ferrule::rendezvous
