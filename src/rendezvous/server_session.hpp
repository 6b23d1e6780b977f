// One connection of the store's server. Everything here runs on the server's thread.
#pragma once

#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "rendezvous/store_protocol.hpp"

namespace ferrule::rendezvous {

class ServerSession;

/// What a session asks of the server it belongs to.
class SessionHost {
 public:
  virtual ~SessionHost() = default;
  virtual bool is_our_job(std::string_view job) const = 0;
  /// False when there are too many clients.
  virtual bool admit(ServerSession& session) = 0;
  virtual void closed(ServerSession& session) = 0;
  virtual Status set(std::string_view key, std::string_view value) = 0;
  virtual std::optional<std::string> find(std::string_view key) const = 0;
  /// The session's key_came(key) is called when somebody sets the key.
  virtual void watch(const std::string& key, std::weak_ptr<ServerSession> session) = 0;
  virtual std::chrono::nanoseconds frame_timeout() const = 0;
};

class ServerSession final : public std::enable_shared_from_this<ServerSession> {
 public:
  /// The host must outlive the io_context's handlers.
  ServerSession(asio::ip::tcp::socket socket, SessionHost& host);

  void start();
  void close();
  bool is_client() const { return is_client_; }
  void key_came(const std::string& key);

 private:
  void read_header();
  void read_body(StoreFrame frame);
  void handle();
  void handle_hello();
  void handle_get();
  void reply(StoreOperation operation, std::string_view value);
  void reply_refused(const Status& why);
  /// Closes the connection unless the next thing happens in time.
  void limit(std::chrono::nanoseconds time);
  void stop_limit();

  asio::ip::tcp::socket socket_;
  asio::steady_timer timer_;
  SessionHost& host_;
  std::uint64_t timer_turn_ = 0;  // a timer that was set again must not fire for the earlier turn
  bool is_client_ = false;
  bool is_open_ = true;
  StoreFrame::Header header_{};
  StoreOperation operation_{};
  std::string key_;
  std::string body_;  // key, then value
  std::string value_;
  std::string awaited_key_;  // of a get that waits; empty otherwise
  std::string out_;
};

}  // namespace ferrule::rendezvous
