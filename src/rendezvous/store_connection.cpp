#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "rendezvous/tcp_store.hpp"

namespace ferrule::rendezvous {
namespace {

// Milliseconds for poll(), rounded up so that it does not spin through the last one.
int poll_ms(Deadline deadline) {
  using std::chrono::milliseconds;
  const auto left = std::chrono::ceil<milliseconds>(deadline.left());
  return static_cast<int>(std::min(left, milliseconds(3600'000)).count());
}

// True once the socket is ready, false at the deadline.
bool wait_for(int socket, short events, Deadline deadline) {
  while (true) {
    pollfd entry{socket, events, 0};
    const int ready = ::poll(&entry, 1, poll_ms(deadline));
    if (ready > 0) return true;
    if (deadline.passed()) return false;
  }
}

Status no_answer() { return Status(ErrorCode::timeout, "no answer in time"); }
Status lost(const char* why) { return Status(ErrorCode::system, why); }

// Empty when connected.
std::string connect_socket(int socket, const SocketAddress& address, Deadline deadline) {
  if (::connect(socket, address.get(), address.bytes) == 0) return {};
  if (errno != EINPROGRESS) return std::strerror(errno);
  if (!wait_for(socket, POLLOUT, deadline)) return "no answer in time";
  int error = 0;
  socklen_t bytes = sizeof(error);
  ::getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &bytes);
  return error == 0 ? std::string() : std::strerror(error);
}

// Connecting to a port of this host that nobody listens on can, once in many thousand tries, connect a socket
// to itself.
bool is_connected_to_itself(int socket, const SocketAddress& peer) {
  SocketAddress own;
  own.bytes = sizeof(own.storage);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&own.storage), &own.bytes);
  return own.text() == peer.text();
}

}  // namespace

StoreConnection::Attempt StoreConnection::open(const SocketAddress& address, std::string_view job,
                                               Deadline deadline) {
  Attempt attempt;
  Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  attempt.why = socket ? connect_socket(socket.get(), address, deadline) : std::strerror(errno);
  if (!attempt.why.empty()) return attempt;
  if (is_connected_to_itself(socket.get(), address)) {
    attempt.why = std::strerror(ECONNREFUSED);
    return attempt;
  }
  const int on = 1;
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  std::unique_ptr<StoreConnection> connection(new StoreConnection(std::move(socket)));
  const auto reply = connection->request(make_frame(StoreOperation::hello, {}, job), deadline);
  if (!reply.ok()) {
    attempt.why = "something listens there, but does not answer as Ferrule does: " + reply.status().text();
  } else if (reply->operation == StoreOperation::ok) {
    attempt.answer = Answer::accepted;
    attempt.connection = std::move(connection);
  } else {
    attempt.answer = Answer::other_job;
    attempt.why = "it serves another job";
  }
  return attempt;
}

Result<StoreConnection::Reply> StoreConnection::request(std::string_view frame, Deadline deadline) {
  FERRULE_RETURN_IF_ERROR(send(frame, deadline));
  StoreFrame::Header header{};
  FERRULE_RETURN_IF_ERROR(receive(reinterpret_cast<char*>(header.data()), header.size(), deadline));
  const Result<StoreFrame> answer = StoreFrame::parse(header);
  if (!answer.ok()) return answer.status();
  Reply reply{answer->operation, std::string(answer->key_bytes + answer->value_bytes, '\0')};
  FERRULE_RETURN_IF_ERROR(receive(reply.value.data(), reply.value.size(), deadline));
  return reply;
}

Status StoreConnection::send(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.get(), POLLOUT, deadline)) return no_answer();
    } else if (errno != EINTR) {
      return lost(std::strerror(errno));
    }
  }
  return Status();
}

Status StoreConnection::receive(char* bytes, std::size_t count, Deadline deadline) {
  while (count > 0) {
    const ssize_t got = ::recv(socket_.get(), bytes, count, 0);
    if (got > 0) {
      bytes += got;
      count -= static_cast<std::size_t>(got);
    } else if (got == 0) {
      return lost("it closed the connection");
    } else if (errno == EAGAIN) {
      if (!wait_for(socket_.get(), POLLIN, deadline)) return no_answer();
    } else if (errno != EINTR) {
      return lost(std::strerror(errno));
    }
  }
  return Status();
}

}  // namespace ferrule::rendezvous
