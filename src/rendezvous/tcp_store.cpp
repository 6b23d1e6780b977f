#include "rendezvous/tcp_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "rendezvous/memory_store.hpp"

namespace ferrule::rendezvous {
namespace {

// One address may be behind a firewall that drops everything; the others must still get their turn.
constexpr auto kLongestAttempt = std::chrono::seconds(2);
constexpr std::chrono::nanoseconds kFirstPause = std::chrono::milliseconds(10);
constexpr std::chrono::nanoseconds kLongestPause = std::chrono::milliseconds(500);
// The server answers a get that waited in vain; allow for its answer to travel.
constexpr auto kAnswerGrace = std::chrono::seconds(2);
// set() has no deadline of its own.
constexpr auto kSetTimeout = std::chrono::seconds(30);

// A server that refuses our secret is most likely the job's own, and nothing will change. Most likely:
// anybody can answer like that on a port that is tried before the right one, so the others get their turn,
// twice or more.
constexpr auto kRefusedPatience = std::chrono::seconds(1);
constexpr std::chrono::nanoseconds kRefusedPause = std::chrono::milliseconds(400);

class Search {
 public:
  Search(const std::vector<SocketAddress>& addresses, const Job& job, Deadline deadline)
      : addresses_(addresses), job_(job), deadline_(deadline) {}

  /// One try of each address. Null if none accepts us.
  std::shared_ptr<TcpStore> try_all() {
    tried_.clear();
    for (const SocketAddress& address : addresses_) {
      const Deadline attempt_end = earlier(deadline_, Deadline::after(kLongestAttempt));
      auto attempt = StoreConnection::open(address, job_, attempt_end);
      if (attempt.connection) return std::make_shared<TcpStore>(address, job_, std::move(attempt.connection));
      tried_ += fmt::format("{}{} ({})", tried_.empty() ? "" : ", ", address.text(), attempt.why);
      if (attempt.answer == StoreConnection::Answer::no_access) note_refusal(address, attempt.why);
      if (is_refused()) return nullptr;
    }
    return nullptr;
  }

  bool was_refused() const { return patience_.has_value(); }
  bool is_refused() const { return patience_ && patience_->passed(); }
  Status refusal() const { return Status(ErrorCode::mismatch, refusal_); }
  Status timeout() const {
    if (patience_) return refusal();
    return Status(ErrorCode::timeout,
                  fmt::format("found no rendezvous server before the deadline; tried {}", tried_));
  }

 private:
  void note_refusal(const SocketAddress& address, const std::string& why) {
    if (!patience_) patience_ = Deadline::after(kRefusedPatience);
    refusal_ = fmt::format("the rendezvous server at tcp://{} does not accept this rank: {}; {}",
                           address.text(), why, kSecretAdvice);
  }

  const std::vector<SocketAddress>& addresses_;
  const Job& job_;
  Deadline deadline_;
  std::string tried_;
  std::string refusal_;
  std::optional<Deadline> patience_;  // since the first refusal
};

}  // namespace

TcpStore::TcpStore(SocketAddress address, Job job, std::unique_ptr<StoreConnection> first)
    : address_(address), job_(std::move(job)) {
  idle_.push_back(std::move(first));
}

Result<std::shared_ptr<TcpStore>> TcpStore::connect(const std::vector<SocketAddress>& addresses,
                                                    const Job& job, Deadline deadline) {
  Search search(addresses, job, deadline);
  std::chrono::nanoseconds pause = kFirstPause;
  while (true) {
    if (auto store = search.try_all()) return store;
    if (search.is_refused()) return search.refusal();
    if (search.was_refused()) pause = kRefusedPause;
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min(pause * 2, kLongestPause);
    // Not another round without time: its reasons would all be "no answer in time".
    if (deadline.passed()) return search.timeout();
  }
}

Result<std::unique_ptr<StoreConnection>> TcpStore::take_connection(Deadline deadline) {
  {
    const std::lock_guard lock(mutex_);
    if (!idle_.empty()) {
      auto connection = std::move(idle_.back());
      idle_.pop_back();
      return connection;
    }
  }
  auto attempt = StoreConnection::open(address_, job_, deadline);
  if (attempt.connection) return std::move(attempt.connection);
  const bool refused = attempt.answer == StoreConnection::Answer::no_access;
  return Status(refused ? ErrorCode::mismatch : ErrorCode::system, attempt.why);
}

Result<StoreConnection::Reply> TcpStore::request(std::string_view frame, Deadline deadline) {
  auto connection = take_connection(deadline);
  if (!connection.ok()) {
    return Status(connection.status().code(), fmt::format("{}: {}", describe(), connection.status().text()));
  }
  auto reply = connection.value()->request(frame, deadline);
  if (!reply.ok()) {
    return Status(reply.status().code(),
                  fmt::format("lost the rendezvous server at {}: {}", describe(), reply.status().text()));
  }
  if (reply->operation == StoreOperation::refused && !reply->value.empty()) {
    const auto code = static_cast<ErrorCode>(reply->value[0]);
    const bool known = code != ErrorCode::ok && error_code_name(code) != "unknown";
    return Status(known ? code : ErrorCode::corrupt, reply->value.substr(1));
  }
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(connection.value()));
  return reply;
}

Status TcpStore::set(std::string_view key, std::string_view value) {
  FERRULE_RETURN_IF_ERROR(check_entry(key, value));
  return request(make_frame(StoreOperation::set, key, value), Deadline::after(kSetTimeout)).status();
}

Result<std::string> TcpStore::get(std::string_view key, Deadline deadline) {
  FERRULE_RETURN_IF_ERROR(check_key(key));
  while (true) {
    // An hour at a time, so that the server's own limit on waits does not matter.
    const auto wait = std::min<std::chrono::nanoseconds>(deadline.left(), std::chrono::hours(1));
    const std::string frame =
        make_frame(StoreOperation::get, key, encode_u64(static_cast<std::uint64_t>(wait.count())));
    auto reply = request(frame, Deadline::after(wait + kAnswerGrace));
    if (!reply.ok()) return reply.status();
    if (reply->operation == StoreOperation::ok) return std::move(reply->value);
    if (deadline.passed()) return key_timeout(key, describe());
  }
}

}  // namespace ferrule::rendezvous
