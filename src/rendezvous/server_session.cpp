#include "rendezvous/server_session.hpp"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <utility>

#include "base/log.hpp"
#include "rendezvous/memory_store.hpp"

namespace ferrule::rendezvous {
namespace {

constexpr std::chrono::nanoseconds kLongestWait = std::chrono::minutes(10);
// A body is given memory as it comes, so that a length alone costs nothing.
constexpr std::size_t kPieceBytes = std::size_t{64} << 10;

std::string_view view_of(const StoreFrame::Header& header) {
  return {reinterpret_cast<const char*>(header.data()), header.size()};
}

}  // namespace

ServerSession::ServerSession(asio::ip::tcp::socket socket, SessionHost& host)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), host_(host) {
  asio::error_code ignored;
  peer_ = socket_.remote_endpoint(ignored);
}

void ServerSession::start() {
  asio::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  socket_.set_option(asio::socket_base::keep_alive(true), ignored);
  limit(host_.frame_timeout());
  read_header();
}

void ServerSession::close() {
  if (!is_open_) return;
  is_open_ = false;
  end_wait();
  stop_limit();
  asio::error_code ignored;
  socket_.close(ignored);
  host_.closed(*this);
}

void ServerSession::limit(std::chrono::nanoseconds time) {
  if (!is_client() && timer_turn_ > 0) return;
  const std::uint64_t turn = ++timer_turn_;
  timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
  timer_.async_wait([self = shared_from_this(), turn](const asio::error_code& error) {
    if (error || turn != self->timer_turn_) return;
    if (self->awaited_key_.empty()) return self->close();
    self->end_wait();
    self->reply(StoreOperation::absent, {});
  });
}

void ServerSession::stop_limit() {
  if (is_open_ && !is_client()) return;
  ++timer_turn_;
  timer_.cancel();
}

// ---- frames

void ServerSession::read_header() {
  asio::async_read(socket_, asio::buffer(header_),
                   [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                     if (error || !self->is_open_) return self->close();
                     const Result<StoreFrame> frame = StoreFrame::parse(self->header_);
                     if (!frame.ok()) {
                       log::trace("rendezvous: closing a connection: {}", frame.status().text());
                       return self->close();
                     }
                     self->start_body(frame.value());
                   });
}

bool ServerSession::expects(StoreOperation operation) const {
  switch (state_) {
    case State::stranger:
      return operation == StoreOperation::hello;
    case State::challenged:
      return operation == StoreOperation::proof;
    case State::client:
      return operation == StoreOperation::set || operation == StoreOperation::get;
  }
  return false;
}

void ServerSession::start_body(StoreFrame frame) {
  if (!expects(frame.operation)) return close();
  limit(host_.frame_timeout());
  frame_ = frame;
  std::string().swap(body_);  // the last one may have been a large one
  read_body();
}

void ServerSession::read_body() {
  const std::size_t whole = frame_.key_bytes + frame_.value_bytes + (tags_ ? SecretKey::kTagBytes : 0);
  const std::size_t done = body_.size();
  if (done == whole) return take_frame();
  body_.resize(std::min(whole, done + kPieceBytes));
  asio::async_read(socket_, asio::buffer(body_.data() + done, body_.size() - done),
                   [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                     if (error || !self->is_open_) return self->close();
                     self->read_body();
                   });
}

void ServerSession::take_frame() {
  stop_limit();
  const std::string_view body = std::string_view(body_).substr(0, frame_.key_bytes + frame_.value_bytes);
  if (tags_ && !tags_->accept_next_received(view_of(header_), body, body_.substr(body.size()))) {
    log::warn("rendezvous: closing the connection of {}: a frame was not sealed with the job's secret",
              peer_.address().to_string());
    return close();
  }
  key_ = body.substr(0, frame_.key_bytes);
  value_ = body.substr(frame_.key_bytes);
  handle();
}

void ServerSession::handle() {
  switch (frame_.operation) {
    case StoreOperation::hello:
      return handle_hello();
    case StoreOperation::proof:
      return handle_proof();
    case StoreOperation::get:
      return handle_get();
    default: {  // expects() lets nothing else but set through
      const Status status = host_.set(key_, value_);
      return status.ok() ? reply(StoreOperation::ok, {}) : reply_refused(status);
    }
  }
}

// ---- who is it?

void ServerSession::handle_hello() {
  const auto hello = StoreHello::decode(value_);
  if (!hello) return close();
  if (hello->job != host_.job().name) return reply(StoreOperation::wrong_job, {});
  const auto& secret = host_.job().secret;
  if (!secret && hello->has_secret) return refuse(NoAccess::server_has_no_secret);
  if (!secret) return accept_as_client({});
  if (!hello->has_secret) return refuse(NoAccess::client_has_no_secret);
  const Result<std::string> nonce = random_bytes(kNonceBytes);
  if (!nonce.ok()) return close();
  state_ = State::challenged;
  handshake_.emplace(Handshake{*secret, hello->nonce, *nonce, hello->job});
  reply(StoreOperation::challenge, *nonce);
}

void ServerSession::handle_proof() {
  if (!handshake_->accepts_proof_of(Side::client, value_)) return refuse(NoAccess::wrong_secret);
  accept_as_client(handshake_->proof_of(Side::server));
}

void ServerSession::accept_as_client(std::string_view answer) {
  if (!host_.admit(*this)) return close();
  state_ = State::client;
  reply(StoreOperation::ok, answer);
  if (handshake_) tags_.emplace(*handshake_, Side::server);  // from the next frame on
  handshake_.reset();
}

void ServerSession::refuse(NoAccess why) {
  host_.refused(*this, why);
  reply(StoreOperation::no_access, std::string(1, static_cast<char>(why)));
}

// ---- clients

void ServerSession::handle_get() {
  if (value_.size() != 8) return close();
  if (const Status status = check_key(key_); !status.ok()) return reply_refused(status);
  if (const auto found = host_.find(key_)) return reply(StoreOperation::ok, *found);
  const std::uint64_t wait_ns = decode_u64(value_);
  if (wait_ns == 0) return reply(StoreOperation::absent, {});
  awaited_key_ = key_;
  host_.watch(key_, weak_from_this());
  limit(std::chrono::nanoseconds(std::min<std::uint64_t>(wait_ns, kLongestWait.count())));
}

void ServerSession::end_wait() {
  if (awaited_key_.empty()) return;
  host_.unwatch(awaited_key_, *this);
  awaited_key_.clear();
}

void ServerSession::key_came(const std::string& key) {
  if (!is_open_ || awaited_key_ != key) return;
  awaited_key_.clear();
  stop_limit();
  if (const auto found = host_.find(key)) reply(StoreOperation::ok, *found);
}

void ServerSession::reply_refused(const Status& why) {
  reply(StoreOperation::refused, std::string(1, static_cast<char>(why.code())) + why.text());
}

void ServerSession::reply(StoreOperation operation, std::string_view value) {
  out_ = make_frame(operation, {}, value);
  if (tags_) {
    const std::string_view frame(out_);
    out_ += tags_->of_next_sent(frame.substr(0, StoreFrame::kHeaderBytes),
                                frame.substr(StoreFrame::kHeaderBytes));
  }
  limit(host_.frame_timeout());  // for peers that do not read
  const bool last = operation == StoreOperation::wrong_job || operation == StoreOperation::no_access;
  asio::async_write(socket_, asio::buffer(out_),
                    [self = shared_from_this(), last](const asio::error_code& error, std::size_t) {
                      if (error || !self->is_open_ || last) return self->close();
                      self->stop_limit();  // clients may be silent as long as they like between frames
                      self->read_header();
                    });
}

}  // namespace ferrule::rendezvous
