// The TCP store's client.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.hpp"
#include "rendezvous/job_secret.hpp"
#include "rendezvous/socket_address.hpp"
#include "rendezvous/store.hpp"
#include "rendezvous/store_auth.hpp"
#include "rendezvous/store_protocol.hpp"

namespace ferrule::rendezvous {

/// A connection to a server that has accepted our hello. One request at a time.
class StoreConnection {
 public:
  enum class Answer { accepted, other_job, no_access, unreachable };
  struct Attempt {
    Answer answer = Answer::unreachable;
    std::string why;  ///< of all but accepted
    std::unique_ptr<StoreConnection> connection;
  };
  static Attempt open(const SocketAddress& address, const Job& job, Deadline deadline);

  struct Reply {
    StoreOperation operation{};
    std::string value;
  };
  /// Sends a frame and waits for the answer. After an error the connection is of no use.
  Result<Reply> request(std::string_view frame, Deadline deadline);

 private:
  explicit StoreConnection(Descriptor socket) : socket_(std::move(socket)) {}

  Attempt introduce(std::unique_ptr<StoreConnection>& self, const Job& job, Deadline deadline);
  Attempt prove(std::unique_ptr<StoreConnection>& self, Handshake handshake, Deadline deadline);
  Status check_tag(const StoreFrame::Header& header, std::string_view body, Deadline deadline);
  Status send(std::string_view bytes, Deadline deadline);
  Status receive(char* bytes, std::size_t count, Deadline deadline);

  Descriptor socket_;
  std::optional<FrameTags> tags_;  // of a job with a secret
};

/// Thread safe: calls that overlap use a connection each.
class TcpStore final : public Store {
 public:
  /// Tries the addresses in turn, again and again until the deadline, and keeps to the first whose server is
  /// of this job. Then: `timeout`, with the addresses and why each did not do. If a server of this job
  /// refuses us for another secret, and none accepts us within a second of that: `mismatch`.
  static Result<std::shared_ptr<TcpStore>> connect(const std::vector<SocketAddress>& addresses,
                                                   const Job& job, Deadline deadline);

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  std::string describe() const override { return "tcp://" + address_.text(); }

  const SocketAddress& address() const { return address_; }

  TcpStore(SocketAddress address, Job job, std::unique_ptr<StoreConnection> first);

 private:
  Result<std::unique_ptr<StoreConnection>> take_connection(Deadline deadline);
  Result<StoreConnection::Reply> request(std::string_view frame, Deadline deadline);

  SocketAddress address_;
  Job job_;
  std::mutex mutex_;  // guards idle_
  std::vector<std::unique_ptr<StoreConnection>> idle_;
};

}  // namespace ferrule::rendezvous
