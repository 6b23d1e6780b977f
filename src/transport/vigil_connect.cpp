// How the tree of a vigil is made.

#include <fcntl.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/signals.hpp"
#include "transport/vigil.hpp"

namespace ferrule::transport {
namespace {

using std::chrono::milliseconds;

constexpr std::string_view kDomain = "ferrule vigil 1";
/// For a hello to arrive on a connection that was accepted.
constexpr std::chrono::seconds kHelloLimit{5};
constexpr std::size_t kMostStrangers = 128;
/// A host that has lost its power says nothing: after so long without an answer its ranks count as dead.
constexpr int kKeepAliveIdleSeconds = 10;
constexpr int kKeepAliveIntervalSeconds = 5;
constexpr int kKeepAliveProbes = 4;

struct Address {
  sockaddr_storage storage{};
  socklen_t bytes = 0;
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

Result<Address> parse(const std::string& ip, std::uint16_t port) {
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = ::getaddrinfo(ip.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (error != 0) {
    return Status(ErrorCode::system, fmt::format("vigil: '{}' is no address: {}", ip, ::gai_strerror(error)));
  }
  Address address;
  address.bytes = found->ai_addrlen;
  std::memcpy(&address.storage, found->ai_addr, found->ai_addrlen);
  ::freeaddrinfo(found);
  return address;
}

Descriptor open_socket(const Address& address) {
  return Descriptor(::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

Status failed(const char* call) {
  return {ErrorCode::system, fmt::format("vigil: {} failed: {}", call, std::strerror(errno))};
}

void tune(int socket) {
  const auto set = [&](int level, int option, int value) {
    ::setsockopt(socket, level, option, &value, sizeof(value));
  };
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepAliveIdleSeconds);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepAliveIntervalSeconds);
  set(IPPROTO_TCP, TCP_KEEPCNT, kKeepAliveProbes);
}

bool wait_for(int socket, short events, Deadline deadline) {
  while (!deadline.passed()) {
    pollfd entry{socket, events, 0};
    const auto left = std::chrono::ceil<milliseconds>(deadline.left());
    if (::poll(&entry, 1, static_cast<int>(std::min(left, milliseconds(1000)).count())) > 0) return true;
  }
  return false;
}

std::string_view claims_of(const VigilWord& word) {
  return {reinterpret_cast<const char*>(&word), sizeof(VigilWord) - SecretKey::kTagBytes};
}

}  // namespace

VigilWord Vigil::hello_to(std::int32_t rank) const {
  VigilWord word;
  word.communicator = membership_.communicator;
  word.source = membership_.rank;
  word.subject = rank;
  if (membership_.link_key) {
    const std::string tag = membership_.link_key->tag(kDomain, {claims_of(word)});
    std::memcpy(word.proof.data(), tag.data(), std::min(tag.size(), word.proof.size()));
  }
  return word;
}

bool Vigil::is_hello_of(const VigilWord& word, std::int32_t rank) const {
  const bool says_so = word.magic == VigilWord::kMagic && word.kind == VigilWord::Kind::hello &&
                       word.communicator == membership_.communicator && word.source == rank &&
                       word.subject == membership_.rank;
  if (!says_so || !membership_.link_key) return says_so;
  return membership_.link_key->accepts({word.proof.data(), word.proof.size()}, kDomain, {claims_of(word)});
}

Result<std::unique_ptr<Vigil>> Vigil::listen(const Membership& membership) {
  std::unique_ptr<Vigil> vigil(new Vigil(membership));
  vigil->children_ = children_of(membership.rank, membership.size());
  vigil->known_.assign(membership.peers.size(), 0);
  vigil->news_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  vigil->stop_ = Descriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!vigil->news_ || !vigil->stop_) return failed("eventfd");
  if (!vigil->children_.empty()) FERRULE_RETURN_IF_ERROR(vigil->open_listener());
  return vigil;
}

Status Vigil::open_listener() {
  auto address = parse(membership_.peers[static_cast<std::size_t>(membership_.rank)].address, 0);
  FERRULE_RETURN_IF_ERROR(address.status());
  listener_ = open_socket(*address);
  if (!listener_) return failed("socket");
  if (::bind(listener_.get(), address->get(), address->bytes) != 0) return failed("bind");
  if (::listen(listener_.get(), kBranches + static_cast<int>(kMostStrangers)) != 0) return failed("listen");
  address->bytes = sizeof(address->storage);
  if (::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address->storage), &address->bytes) != 0) {
    return failed("getsockname");
  }
  const bool v6 = address->storage.ss_family == AF_INET6;
  port_ = ntohs(v6 ? reinterpret_cast<const sockaddr_in6*>(&address->storage)->sin6_port
                   : reinterpret_cast<const sockaddr_in*>(&address->storage)->sin_port);
  return {};
}

Status Vigil::connect(std::span<const std::uint16_t> ports, Deadline deadline) {
  const std::int32_t parent = parent_of(membership_.rank);
  if (parent >= 0) {
    FERRULE_RETURN_IF_ERROR(connect_to_parent(ports[static_cast<std::size_t>(parent)], deadline));
  }
  FERRULE_RETURN_IF_ERROR(wait_for_children(deadline));
  listener_ = Descriptor();
  const SignalsHeld held;
  thread_ = std::thread([this] { keep(); });
  return {};
}

// The parent listens before it tells its port, so the kernel takes the connection and the hello whether it
// has come as far as accepting or not: no rank waits for another here, and none can wait in a circle.
Status Vigil::connect_to_parent(std::uint16_t port, Deadline deadline) {
  const std::int32_t parent = parent_of(membership_.rank);
  auto address = parse(membership_.peers[static_cast<std::size_t>(parent)].address, port);
  FERRULE_RETURN_IF_ERROR(address.status());
  Descriptor socket = open_socket(*address);
  if (!socket) return failed("socket");
  int error = 0;
  if (::connect(socket.get(), address->get(), address->bytes) != 0) {
    error = errno;
    socklen_t bytes = sizeof(error);
    if (error == EINPROGRESS && wait_for(socket.get(), POLLOUT, deadline)) {
      ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &bytes);
    }
  }
  if (error == EINPROGRESS) {
    return {ErrorCode::timeout,
            fmt::format("vigil: {} does not answer at {}:{}; does a firewall stand between?",
                        membership_.describe(parent),
                        membership_.peers[static_cast<std::size_t>(parent)].address, port)};
  }
  if (error != 0) {
    return {ErrorCode::peer_lost, fmt::format("{} is lost: it cannot be connected to: {}",
                                              membership_.describe(parent), std::strerror(error))};
  }
  return greet_parent(std::move(socket), deadline);
}

Status Vigil::greet_parent(Descriptor socket, Deadline deadline) {
  const std::int32_t parent = parent_of(membership_.rank);
  const VigilWord mine = hello_to(parent);
  if (::send(socket.get(), &mine, sizeof(mine), MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(mine))) {
    return {ErrorCode::peer_lost,
            fmt::format("{} is lost: {}", membership_.describe(parent), std::strerror(errno))};
  }
  VigilWord theirs;
  std::size_t bytes = 0;
  while (bytes < sizeof(theirs)) {
    if (!wait_for(socket.get(), POLLIN, deadline)) {
      return {ErrorCode::timeout, fmt::format("vigil: {} does not answer", membership_.describe(parent))};
    }
    const ssize_t got =
        ::recv(socket.get(), reinterpret_cast<char*>(&theirs) + bytes, sizeof(theirs) - bytes, 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (got <= 0) {
      return {ErrorCode::peer_lost,
              fmt::format("{} is lost: it closed its connection", membership_.describe(parent))};
    }
    bytes += static_cast<std::size_t>(got);
  }
  if (!is_hello_of(theirs, parent)) {
    return {ErrorCode::corrupt, fmt::format("vigil: what answers at {} is not {}",
                                            membership_.peers[static_cast<std::size_t>(parent)].address,
                                            membership_.describe(parent))};
  }
  tune(socket.get());
  neighbours_.push_back({parent, std::move(socket), {}, 0, false});
  return {};
}

bool Vigil::is_missing(std::int32_t child) const {
  return std::none_of(neighbours_.begin(), neighbours_.end(),
                      [&](const Neighbour& neighbour) { return neighbour.rank == child; });
}

Status Vigil::missing_children() const {
  std::string names;
  for (const std::int32_t child : children_) {
    if (is_missing(child)) names += (names.empty() ? "" : ", ") + membership_.describe(child);
  }
  if (names.empty()) return {};
  return {ErrorCode::timeout,
          fmt::format("vigil: {} did not connect to {} in time; is it running, and does a "
                      "firewall stand between?",
                      names, membership_.describe(membership_.rank))};
}

Status Vigil::wait_for_children(Deadline deadline) {
  std::vector<Stranger> strangers;
  while (!missing_children().ok()) {
    if (deadline.passed()) return missing_children();
    std::vector<pollfd> entries = {{listener_.get(), POLLIN, 0}};
    for (const Stranger& stranger : strangers) entries.push_back({stranger.socket.get(), POLLIN, 0});
    const auto left = std::chrono::ceil<milliseconds>(deadline.left());
    ::poll(entries.data(), entries.size(), static_cast<int>(std::min(left, milliseconds(1000)).count()));
    for (Stranger& stranger : strangers) {
      const std::int32_t child = recognise(stranger);
      if (child < 0) continue;
      const VigilWord mine = hello_to(child);
      [[maybe_unused]] const auto sent = ::send(stranger.socket.get(), &mine, sizeof(mine), MSG_NOSIGNAL);
      tune(stranger.socket.get());
      neighbours_.push_back({child, std::move(stranger.socket), {}, 0, false});
    }
    std::erase_if(strangers,
                  [](const Stranger& stranger) { return !stranger.socket || stranger.until.passed(); });
    if (entries[0].revents != 0) accept_strangers(strangers);
  }
  return {};
}

void Vigil::accept_strangers(std::vector<Stranger>& strangers) const {
  while (true) {
    Descriptor socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (strangers.size() >= kMostStrangers) strangers.erase(strangers.begin());
    strangers.push_back({std::move(socket), Deadline::after(kHelloLimit), {}, 0});
  }
}

std::int32_t Vigil::recognise(Stranger& stranger) const {
  const ssize_t got = ::recv(stranger.socket.get(), reinterpret_cast<char*>(&stranger.word) + stranger.bytes,
                             sizeof(VigilWord) - stranger.bytes, 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return -1;
  stranger.bytes += got > 0 ? static_cast<std::size_t>(got) : 0;
  if (got > 0 && stranger.bytes < sizeof(VigilWord)) return -1;
  for (const std::int32_t child : children_) {
    if (got > 0 && is_missing(child) && is_hello_of(stranger.word, child)) return child;
  }
  stranger.socket = Descriptor();
  return -1;
}

}  // namespace ferrule::transport
