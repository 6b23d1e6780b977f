// Sockets without any manners, for the two ends of a store's connection.
#pragma once

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <string_view>

#include "base/descriptor.hpp"
#include "rendezvous/socket_address.hpp"
#include "rendezvous/store_auth.hpp"
#include "rendezvous/store_protocol.hpp"

namespace ferrule::rendezvous {

inline Descriptor dial(const SocketAddress& address) {
  Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), address.get(), address.bytes), 0) << std::strerror(errno);
  return socket;
}

inline void send_bytes(const Descriptor& socket, std::string_view bytes) {
  (void)::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

/// Up to `count` bytes; fewer when the other end hangs up. What it must not do is leave us waiting.
inline std::string receive_bytes(const Descriptor& socket, std::size_t count) {
  std::string all;
  while (all.size() < count) {
    pollfd entry{socket.get(), POLLIN, 0};
    if (::poll(&entry, 1, 20'000) != 1) {
      ADD_FAILURE() << "the peer neither answered nor closed the connection";
      return all;
    }
    char bytes[4096];
    const ssize_t got = ::recv(socket.get(), bytes, std::min(sizeof(bytes), count - all.size()), 0);
    if (got <= 0) return all;
    all.append(bytes, static_cast<std::size_t>(got));
  }
  return all;
}

inline std::string receive_until_closed(const Descriptor& socket) { return receive_bytes(socket, SIZE_MAX); }

/// One whole frame: its operation and value. Operation 0: the connection was closed.
struct RawFrame {
  StoreOperation operation{};
  std::string value;
  std::string all;
};
inline RawFrame receive_frame(const Descriptor& socket) {
  RawFrame frame;
  frame.all = receive_bytes(socket, StoreFrame::kHeaderBytes);
  if (frame.all.size() < StoreFrame::kHeaderBytes) return {};
  StoreFrame::Header header{};
  std::memcpy(header.data(), frame.all.data(), header.size());
  const auto parsed = StoreFrame::parse(header);
  if (!parsed.ok()) return {};
  frame.operation = parsed->operation;
  frame.value = receive_bytes(socket, parsed->key_bytes + parsed->value_bytes);
  frame.all += frame.value;
  return frame;
}

inline std::string hello_frame(std::string_view job, bool has_secret = false,
                               const std::string& nonce = std::string(kNonceBytes, '\0')) {
  return make_frame(StoreOperation::hello, {}, StoreHello{has_secret, nonce, std::string(job)}.encode());
}

/// A port of this host's loopback that somebody listens on who is no store.
class RawListener {
 public:
  RawListener() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_ = resolve("127.0.0.1", 0, Deadline::after(std::chrono::seconds(5))).value()[0];
    EXPECT_EQ(::bind(socket_.get(), address_.get(), address_.bytes), 0);
    EXPECT_EQ(::listen(socket_.get(), 64), 0);
    address_.bytes = sizeof(address_.storage);
    EXPECT_EQ(::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address_.storage), &address_.bytes),
              0);
  }
  const SocketAddress& address() const { return address_; }
  Descriptor accept() const { return Descriptor(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }

 private:
  Descriptor socket_;
  SocketAddress address_;
};

}  // namespace ferrule::rendezvous
