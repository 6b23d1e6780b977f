// The TCP store's server: one thread, a bounded number of connections, nothing of a peer believed.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "rendezvous/job_secret.hpp"
#include "rendezvous/memory_store.hpp"
#include "rendezvous/socket_address.hpp"
#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

struct ServerOptions {
  /// Listens on these only. With port 0 the system chooses one, the same for all.
  std::vector<SocketAddress> addresses;
  /// Clients that name another job, or do not know its secret, are turned away.
  Job job;
  /// A connection that was not accepted this long after it came, or is in the middle of a frame for longer
  /// than this, is closed.
  std::chrono::nanoseconds frame_timeout = std::chrono::seconds(10);
  /// Connections that have not been accepted yet; when there are more, the oldest of the address that has the
  /// most of them goes.
  std::size_t max_strangers = 128;
  /// Connections that have been.
  std::size_t max_clients = 8192;
  /// How long the destructor waits for clients that are still connected.
  std::chrono::nanoseconds linger = std::chrono::seconds(2);
};

/// A store that is served to other processes while it lives. Used directly by the process that owns it.
class StoreServer final : public Store {
 public:
  /// `system`, with the address and the reason, if it cannot listen. An address of a family or an interface
  /// that this host has not is left out, as long as one remains.
  static Result<std::shared_ptr<StoreServer>> listen(const ServerOptions& options);
  ~StoreServer() override;

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  std::string describe() const override;

  /// Frees all keys that start with `prefix`.
  void forget(std::string_view prefix);

  std::uint16_t port() const;
  /// The addresses that it listens on.
  const std::vector<SocketAddress>& addresses() const;
  /// How many keys clients wait for.
  std::size_t awaited_keys() const;

  class Impl;
  explicit StoreServer(std::unique_ptr<Impl> impl);

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace ferrule::rendezvous
