#include "rendezvous/refuge.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>
#include <vector>

#include "base/secret_key.hpp"
#include "rendezvous/job_secret.hpp"
#include "rendezvous/memory_store.hpp"
#include "rendezvous/store_server.hpp"
#include "rendezvous/tcp_store.hpp"

namespace ferrule::rendezvous {
namespace {

constexpr std::size_t kNameBytes = 16;
/// Between two tries to open a refuge that does not answer well.
constexpr std::chrono::milliseconds kPause{20};

// Those of this process, by address. A child made by fork() has the servers' memory but not their threads: it
// must neither use nor end them.
class Refuges {
 public:
  static Refuges& instance() {
    static Refuges refuges;
    return refuges;
  }
  ~Refuges() { forget_if_forked(); }

  template <class Make>
  Result<std::shared_ptr<Refuge>> find_or_make(const std::string& address, const Make& make) {
    const std::lock_guard lock(mutex_);
    forget_if_forked();
    if (const auto found = open_.find(address); found != open_.end()) return found->second;
    Result<std::shared_ptr<Refuge>> made = make();
    if (made.ok()) open_.emplace(address, *made);
    return made;
  }

 private:
  using Open = std::map<std::string, std::shared_ptr<Refuge>>;

  void forget_if_forked() {
    if (owner_ == ::getpid()) return;
    owner_ = ::getpid();
    new Open(std::move(open_));  // NOLINT: leaked on purpose
    open_.clear();
  }

  std::mutex mutex_;
  pid_t owner_ = ::getpid();
  Open open_;
};

Result<std::string> random_name() {
  const Result<std::string> bytes = random_bytes(kNameBytes);
  if (!bytes.ok()) return bytes.status();
  std::string name;
  for (const char byte : *bytes) name += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return name;
}

struct Parts {
  SocketAddress address;
  std::string job;
};

Result<Parts> parse(const std::string& text) {
  const Status bad(ErrorCode::corrupt,
                   fmt::format("'{}' is no refuge: expected address, port and name", text));
  const std::size_t first = text.find(' ');
  const std::size_t second = text.find(' ', first + 1);
  if (first == std::string::npos || second == std::string::npos) return bad;
  std::uint16_t port = 0;
  const auto [end, error] = std::from_chars(text.data() + first + 1, text.data() + second, port);
  if (error != std::errc() || end != text.data() + second || port == 0) return bad;
  const auto addresses = resolve(text.substr(0, first), port, Deadline::never());
  if (!addresses.ok()) return addresses.status();
  return Parts{addresses->front(), text.substr(second + 1)};
}

}  // namespace

Result<std::shared_ptr<Refuge>> Refuge::at(const std::string& address) {
  return Refuges::instance().find_or_make(address, [&] { return serve(address); });
}

Result<std::shared_ptr<Refuge>> Refuge::serve(const std::string& address) {
  const Result<std::string> name = random_name();
  if (!name.ok()) return name.status();
  auto addresses = resolve(address, 0, Deadline::never());
  if (!addresses.ok()) return addresses.status();
  ServerOptions options;
  options.addresses = {addresses->front()};
  const auto secret = job_secret();
  if (!secret.ok()) return secret.status();
  options.job = Job(*name, *secret);
  const auto server = StoreServer::listen(options);
  if (!server.ok()) return server.status();
  std::string text = fmt::format("{} {} {}", address, (*server)->port(), *name);
  return std::shared_ptr<Refuge>(
      new Refuge(std::move(text), *server, [raw = server->get()](auto prefix) { raw->forget(prefix); }));
}

std::shared_ptr<Refuge> Refuge::of_threads() {
  return *Refuges::instance().find_or_make("", [] {
    const auto store = std::make_shared<MemoryStore>();
    return Result<std::shared_ptr<Refuge>>(std::shared_ptr<Refuge>(
        new Refuge("", store, [raw = store.get()](auto prefix) { raw->forget(prefix); })));
  });
}

void Refuge::note(const std::string& key) {
  const std::lock_guard lock(mutex_);
  if (!store_->set(key, "1").ok()) return;
  notes_.push_back(key);
  if (notes_.size() <= kMostNotes) return;
  forget_(notes_.front());
  notes_.pop_front();
}

Result<std::shared_ptr<Store>> open_refuge(const std::string& text, Deadline deadline) {
  const Result<Parts> parts = parse(text);
  if (!parts.ok()) return parts.status();
  const auto secret = job_secret();
  if (!secret.ok()) return secret.status();
  const Job job(parts->job, *secret);
  while (true) {
    auto attempt = StoreConnection::open(parts->address, job, deadline);
    if (attempt.answer == StoreConnection::Answer::accepted) {
      return std::shared_ptr<Store>(
          std::make_shared<TcpStore>(parts->address, job, std::move(attempt.connection)));
    }
    // Its port is closed, or another process's.
    if (attempt.answer == StoreConnection::Answer::other_job || attempt.why == std::strerror(ECONNREFUSED)) {
      return Status(ErrorCode::peer_lost, fmt::format("nobody serves {} any more", parts->address.text()));
    }
    if (attempt.answer == StoreConnection::Answer::no_access) {
      return Status(ErrorCode::mismatch, fmt::format("{}: {}", parts->address.text(), attempt.why));
    }
    if (deadline.passed()) {
      return Status(ErrorCode::timeout, fmt::format("{}: {}", parts->address.text(), attempt.why));
    }
    std::this_thread::sleep_for(kPause);
  }
}

}  // namespace ferrule::rendezvous
