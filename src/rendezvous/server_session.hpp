// One connection of the store's server. Everything here runs on the server's thread.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/job_secret.hpp"
#include "rendezvous/store_auth.hpp"
#include "rendezvous/store_protocol.hpp"

namespace ferrule::rendezvous {

class ServerSession;

/// What a session asks of the server it belongs to.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  virtual const Job& job() const = 0;
  /// False when there are too many clients.
  virtual bool admit(ServerSession& session) = 0;
  /// It named the job, but is turned away.
  virtual void refused(const ServerSession& session, NoAccess why) = 0;
  virtual void closed(ServerSession& session) = 0;
  virtual Status set(std::string_view key, std::string_view value) = 0;
  virtual std::optional<std::string> find(std::string_view key) const = 0;
  /// The session's key_came(key) is called when somebody sets the key, unless it asks no more by then.
  virtual void watch(const std::string& key, std::weak_ptr<ServerSession> session) = 0;
  virtual void unwatch(const std::string& key, const ServerSession& session) = 0;
  virtual std::chrono::nanoseconds frame_timeout() const = 0;
};

class ServerSession final : public std::enable_shared_from_this<ServerSession> {
 public:
  /// The host must outlive the io_context's handlers.
  ServerSession(asio::ip::tcp::socket socket, SessionHost& host);

  void start();
  void close();
  bool is_client() const { return state_ == State::client; }
  void key_came(const std::string& key);
  const asio::ip::tcp::endpoint& peer() const { return peer_; }

 private:
  /// A client has been accepted; before that a peer is a stranger, who gets little memory and little time.
  enum class State { stranger, challenged, client };

  void read_header();
  void start_body(StoreFrame frame);
  void read_body();
  bool expects(StoreOperation operation) const;
  void take_frame();
  void handle();
  void handle_hello();
  void handle_proof();
  void handle_get();
  void accept_as_client(std::string_view answer);
  void refuse(NoAccess why);
  void end_wait();
  void reply(StoreOperation operation, std::string_view value);
  void reply_refused(const Status& why);
  /// Closes the connection unless the next thing happens in time. A stranger's time is not prolonged.
  void limit(std::chrono::nanoseconds time);
  void stop_limit();

  asio::ip::tcp::socket socket_;
  asio::ip::tcp::endpoint peer_;
  asio::steady_timer timer_;
  SessionHost& host_;
  std::uint64_t timer_turn_ = 0;  // a timer that was set again must not fire for the earlier turn
  State state_ = State::stranger;
  bool is_open_ = true;
  std::optional<Handshake> handshake_;  // of the challenged
  std::optional<FrameTags> tags_;       // of clients of a job with a secret
  StoreFrame::Header header_{};
  StoreFrame frame_;
  std::string key_;
  std::string body_;  // key, value, and the tag if there are tags
  std::string value_;
  std::string awaited_key_;  // of a get that waits; empty otherwise
  std::string out_;
};

}  // namespace ferrule::rendezvous
