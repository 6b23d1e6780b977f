#include "rendezvous/store_server.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/ip/v6_only.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/log.hpp"
#include "base/signals.hpp"
#include "rendezvous/server_session.hpp"

namespace ferrule::rendezvous {
namespace {

using asio::ip::tcp;

tcp::endpoint to_endpoint(const SocketAddress& address) {
  tcp::endpoint endpoint;
  endpoint.resize(address.bytes);
  std::memcpy(endpoint.data(), address.get(), address.bytes);
  return endpoint;
}

std::string describe_refusal(NoAccess why) {
  switch (why) {
    case NoAccess::client_has_no_secret:
      return fmt::format("it has no job secret, and this job has one; {}", kSecretAdvice);
    case NoAccess::server_has_no_secret:
      return fmt::format("it has a job secret, and rank 0 has none; {}", kSecretAdvice);
    case NoAccess::wrong_secret:
      return fmt::format("it does not know this job's secret; {}", kSecretAdvice);
  }
  return "";
}

asio::error_code listen_on(tcp::acceptor& acceptor, const tcp::endpoint& endpoint) {
  asio::error_code error;
  acceptor.open(endpoint.protocol(), error);
  // So that a job can start again at once on the port of the one before it.
  if (!error) acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address().is_v6()) acceptor.set_option(asio::ip::v6_only(true), error);
  if (!error) acceptor.bind(endpoint, error);
  if (!error) acceptor.listen(1024, error);
  return error;
}

bool is_absent_here(const asio::error_code& error) {
  return error.value() == EADDRNOTAVAIL || error.value() == EAFNOSUPPORT;
}

Status listen_failed(const SocketAddress& address, const asio::error_code& error) {
  const char* advice = "";
  if (error.value() == EADDRINUSE) {
    advice = "; another program listens there: choose another port, or give a range by FERRULE_PORT_RANGE";
  } else if (error.value() == EADDRNOTAVAIL) {
    advice =
        "; no interface of this host has that address: the rendezvous must name the host of the rank that "
        "serves it";
  } else if (error.value() == EACCES) {
    advice = "; ports below 1024 need privileges";
  }
  return Status(ErrorCode::system,
                fmt::format("could not listen on {}: {}{}", address.text(), error.message(), advice));
}

}  // namespace

class StoreServer::Impl final : public SessionHost {
 public:
  explicit Impl(const ServerOptions& options) : options_(options) {}

  ~Impl() override {
    if (!thread_.joinable()) return;
    {
      std::unique_lock lock(mutex_);
      idle_.wait_for(lock, options_.linger, [&] { return client_count_ == 0; });
    }
    io_.stop();
    thread_.join();
  }

  Status open() {
    Status problem(ErrorCode::invalid_argument, "no address to listen on");
    for (SocketAddress address : options_.addresses) {
      if (address.port() == 0 && !acceptors_.empty()) address.set_port(listening_.front().port());
      tcp::acceptor acceptor(io_);
      const asio::error_code error = listen_on(acceptor, to_endpoint(address));
      if (error) {
        problem = listen_failed(address, error);
        if (is_absent_here(error)) continue;
        return problem;
      }
      address.set_port(acceptor.local_endpoint().port());
      listening_.push_back(address);
      acceptors_.push_back(std::move(acceptor));
    }
    if (acceptors_.empty()) return problem;
    for (tcp::acceptor& acceptor : acceptors_) accept(acceptor);
    const SignalsHeld held;
    thread_ = std::thread([this] { io_.run(); });
    return Status();
  }

  void key_set(std::string_view key) {
    asio::post(io_, [this, name = std::string(key)] { tell_watchers(name); });
  }

  MemoryStore& memory() { return memory_; }
  const std::vector<SocketAddress>& listening() const { return listening_; }
  std::size_t awaited_keys() const { return awaited_keys_; }

  const Job& job() const override { return options_.job; }

  // Rank 0's side of the story. Strangers may come again and again: each address is told of once for each
  // reason, and a few only.
  void refused(const ServerSession& session, NoAccess why) override {
    constexpr std::size_t kTold = 8;
    const asio::ip::address address = session.peer().address();
    if (told_of_.size() == kTold || !told_of_.emplace(address, why).second) return;
    log::warn("rendezvous: refused a rank at {}: {}{}", address.to_string(), describe_refusal(why),
              told_of_.size() == kTold ? "; more of these are not shown" : "");
  }

  bool admit(ServerSession& session) override {
    std::erase_if(strangers_, [&](const auto& stranger) { return stranger.get() == &session; });
    const std::lock_guard lock(mutex_);
    if (client_count_ >= options_.max_clients) return false;
    ++client_count_;
    return true;
  }

  void closed(ServerSession& session) override {
    if (!session.is_client()) {
      std::erase_if(strangers_, [&](const auto& stranger) { return stranger.get() == &session; });
      return;
    }
    const std::lock_guard lock(mutex_);
    --client_count_;
    idle_.notify_all();
  }

  Status set(std::string_view key, std::string_view value) override {
    const Status status = memory_.set(key, value);
    if (status.ok()) tell_watchers(std::string(key));
    return status;
  }

  std::optional<std::string> find(std::string_view key) const override { return memory_.find(key); }

  void watch(const std::string& key, std::weak_ptr<ServerSession> session) override {
    std::vector<std::weak_ptr<ServerSession>>& list = watchers_[key];
    // Clients that ask again and again must not make the list grow.
    std::erase_if(list, [&](const auto& other) {
      return other.expired() || (!other.owner_before(session) && !session.owner_before(other));
    });
    list.push_back(std::move(session));
    awaited_keys_ = watchers_.size();
  }

  void unwatch(const std::string& key, const ServerSession& session) override {
    const auto found = watchers_.find(key);
    if (found == watchers_.end()) return;
    std::erase_if(found->second, [&](const auto& other) {
      const auto alive = other.lock();
      return alive == nullptr || alive.get() == &session;
    });
    if (found->second.empty()) watchers_.erase(found);
    awaited_keys_ = watchers_.size();
  }

  std::chrono::nanoseconds frame_timeout() const override { return options_.frame_timeout; }

 private:
  void accept(tcp::acceptor& acceptor) {
    acceptor.async_accept([this, &acceptor](const asio::error_code& error, tcp::socket socket) {
      if (error == asio::error::operation_aborted) return;
      if (error) return accept_later(acceptor);
      if (strangers_.size() >= options_.max_strangers) close_a_stranger();
      strangers_.push_back(std::make_shared<ServerSession>(std::move(socket), *this));
      std::shared_ptr(strangers_.back())->start();
      accept(acceptor);
    });
  }

  // A newcomer replaces the oldest stranger of the address that has the most: so a flood from one host puts
  // out its own connections, and not a rank's of another host that is about to say hello.
  void close_a_stranger() {
    std::map<asio::ip::address, std::size_t> counts;
    for (const auto& stranger : strangers_) ++counts[stranger->peer().address()];
    const auto most = std::ranges::max_element(counts, {}, &decltype(counts)::value_type::second);
    const auto victim = std::ranges::find_if(
        strangers_, [&](const auto& stranger) { return stranger->peer().address() == most->first; });
    std::shared_ptr(*victim)->close();
  }

  // Out of descriptors, most likely: some will be free again soon.
  void accept_later(tcp::acceptor& acceptor) {
    auto timer = std::make_shared<asio::steady_timer>(io_, std::chrono::milliseconds(50));
    timer->async_wait([this, &acceptor, timer](const asio::error_code&) { accept(acceptor); });
  }

  void tell_watchers(const std::string& key) {
    const auto found = watchers_.find(key);
    if (found == watchers_.end()) return;
    const auto sessions = std::move(found->second);
    watchers_.erase(found);
    awaited_keys_ = watchers_.size();
    for (const auto& weak : sessions) {
      if (const auto session = weak.lock()) session->key_came(key);
    }
  }

  ServerOptions options_;
  MemoryStore memory_;
  std::vector<SocketAddress> listening_;
  asio::io_context io_{1};
  std::list<tcp::acceptor> acceptors_;
  // On the server's thread only:
  std::list<std::shared_ptr<ServerSession>> strangers_;  // oldest first
  std::map<std::string, std::vector<std::weak_ptr<ServerSession>>> watchers_;
  std::set<std::pair<asio::ip::address, NoAccess>> told_of_;
  std::atomic<std::size_t> awaited_keys_ = 0;  // for others to read
  std::mutex mutex_;                           // guards client_count_
  std::condition_variable idle_;
  std::size_t client_count_ = 0;
  std::thread thread_;
};

StoreServer::StoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
StoreServer::~StoreServer() = default;

Result<std::shared_ptr<StoreServer>> StoreServer::listen(const ServerOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  FERRULE_RETURN_IF_ERROR(impl->open());
  auto server = std::make_shared<StoreServer>(std::move(impl));
  log::info("rendezvous: serving at {}", server->describe());
  return server;
}

Status StoreServer::set(std::string_view key, std::string_view value) {
  FERRULE_RETURN_IF_ERROR(impl_->memory().set(key, value));
  impl_->key_set(key);
  return Status();
}

Result<std::string> StoreServer::get(std::string_view key, Deadline deadline) {
  Result<std::string> value = impl_->memory().get(key, deadline);
  if (!value.ok() && value.status().code() == ErrorCode::timeout) return key_timeout(key, describe());
  return value;
}

void StoreServer::forget(std::string_view prefix) { impl_->memory().forget(prefix); }

std::string StoreServer::describe() const { return "tcp://" + addresses().front().text(); }
std::uint16_t StoreServer::port() const { return addresses().front().port(); }
const std::vector<SocketAddress>& StoreServer::addresses() const { return impl_->listening(); }
std::size_t StoreServer::awaited_keys() const { return impl_->awaited_keys(); }

}  // namespace ferrule::rendezvous
