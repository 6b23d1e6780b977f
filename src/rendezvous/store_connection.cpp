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

StoreConnection::Attempt strange_answer(const Status& status) {
  return {StoreConnection::Answer::unreachable,
          "something listens there, but does not answer as Ferrule does: " + status.text(), nullptr};
}

StoreConnection::Attempt no_access(std::string_view value) {
  const auto why = static_cast<NoAccess>(value.empty() ? '\0' : value[0]);
  std::string text = "it says that this rank does not know the job's secret";
  if (why == NoAccess::client_has_no_secret) text = "this job has a secret, and this rank has none";
  if (why == NoAccess::server_has_no_secret) text = "this rank has a job secret, and rank 0 has none";
  return {StoreConnection::Answer::no_access, std::move(text), nullptr};
}

}  // namespace

StoreConnection::Attempt StoreConnection::open(const SocketAddress& address, const Job& job,
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
  return connection->introduce(connection, job, deadline);
}

// Says hello; `self` becomes the attempt's if that is answered well.
StoreConnection::Attempt StoreConnection::introduce(std::unique_ptr<StoreConnection>& self, const Job& job,
                                                    Deadline deadline) {
  StoreHello hello;
  hello.job = job.name;
  hello.has_secret = job.secret.has_value();
  if (hello.has_secret) {
    const Result<std::string> nonce = random_bytes(kNonceBytes);
    if (!nonce.ok()) return {Answer::unreachable, nonce.status().text(), nullptr};
    hello.nonce = *nonce;
  }
  const auto reply = request(make_frame(StoreOperation::hello, {}, hello.encode()), deadline);
  if (!reply.ok()) return strange_answer(reply.status());
  switch (reply->operation) {
    case StoreOperation::wrong_job:
      return {Answer::other_job, "it serves another job", nullptr};
    case StoreOperation::no_access:
      return no_access(reply->value);
    case StoreOperation::ok:
      if (job.secret)
        return {Answer::no_access, "it did not ask for the job's secret, so it may not know it", nullptr};
      return {Answer::accepted, "", std::move(self)};
    case StoreOperation::challenge:
      if (job.secret && reply->value.size() == kNonceBytes) {
        return prove(self, {*job.secret, hello.nonce, reply->value, job.name}, deadline);
      }
      [[fallthrough]];
    default:
      return strange_answer(Status(ErrorCode::corrupt, "an answer to another question"));
  }
}

StoreConnection::Attempt StoreConnection::prove(std::unique_ptr<StoreConnection>& self, Handshake handshake,
                                                Deadline deadline) {
  const auto reply =
      request(make_frame(StoreOperation::proof, {}, handshake.proof_of(Side::client)), deadline);
  if (!reply.ok()) return strange_answer(reply.status());
  if (reply->operation == StoreOperation::no_access) return no_access(reply->value);
  if (reply->operation != StoreOperation::ok || !handshake.accepts_proof_of(Side::server, reply->value)) {
    return {Answer::no_access, "it could not prove that it knows the job's secret", nullptr};
  }
  tags_.emplace(handshake, Side::client);
  return {Answer::accepted, "", std::move(self)};
}

Result<StoreConnection::Reply> StoreConnection::request(std::string_view frame, Deadline deadline) {
  std::string sealed;
  if (tags_) {
    sealed = std::string(frame) + tags_->of_next_sent(frame.substr(0, StoreFrame::kHeaderBytes),
                                                      frame.substr(StoreFrame::kHeaderBytes));
    frame = sealed;
  }
  FERRULE_RETURN_IF_ERROR(send(frame, deadline));
  StoreFrame::Header header{};
  FERRULE_RETURN_IF_ERROR(receive(reinterpret_cast<char*>(header.data()), header.size(), deadline));
  const Result<StoreFrame> answer = StoreFrame::parse(header);
  if (!answer.ok()) return answer.status();
  Reply reply{answer->operation, std::string(answer->key_bytes + answer->value_bytes, '\0')};
  FERRULE_RETURN_IF_ERROR(receive(reply.value.data(), reply.value.size(), deadline));
  if (tags_) FERRULE_RETURN_IF_ERROR(check_tag(header, reply.value, deadline));
  return reply;
}

Status StoreConnection::check_tag(const StoreFrame::Header& header, std::string_view body,
                                  Deadline deadline) {
  std::string tag(SecretKey::kTagBytes, '\0');
  FERRULE_RETURN_IF_ERROR(receive(tag.data(), tag.size(), deadline));
  const std::string_view head(reinterpret_cast<const char*>(header.data()), header.size());
  if (tags_->accept_next_received(head, body, tag)) return Status();
  return Status(ErrorCode::corrupt,
                "an answer was not sealed with the job's secret: somebody else's, or damaged");
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
