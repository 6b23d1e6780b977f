#include "rendezvous/server_session.hpp"

#include <algorithm>
#include <asio/buffer.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>

#include "base/log.hpp"
#include "rendezvous/memory_store.hpp"

namespace ferrule::rendezvous {
namespace {

constexpr std::chrono::nanoseconds kLongestWait = std::chrono::minutes(10);

}  // namespace

ServerSession::ServerSession(asio::ip::tcp::socket socket, SessionHost& host)
    : socket_(std::move(socket)), timer_(socket_.get_executor()), host_(host) {}

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
  stop_limit();
  asio::error_code ignored;
  socket_.close(ignored);
  host_.closed(*this);
}

void ServerSession::limit(std::chrono::nanoseconds time) {
  const std::uint64_t turn = ++timer_turn_;
  timer_.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(time));
  timer_.async_wait([self = shared_from_this(), turn](const asio::error_code& error) {
    if (error || turn != self->timer_turn_) return;
    if (self->awaited_key_.empty()) return self->close();
    self->awaited_key_.clear();
    self->reply(StoreOperation::absent, {});
  });
}

void ServerSession::stop_limit() {
  ++timer_turn_;
  timer_.cancel();
}

void ServerSession::read_header() {
  asio::async_read(socket_, asio::buffer(header_),
                   [self = shared_from_this()](const asio::error_code& error, std::size_t) {
                     if (error || !self->is_open_) return self->close();
                     const Result<StoreFrame> frame = StoreFrame::parse(self->header_);
                     if (!frame.ok()) {
                       log::trace("rendezvous: closing a connection: {}", frame.status().text());
                       return self->close();
                     }
                     self->read_body(frame.value());
                   });
}

void ServerSession::read_body(StoreFrame frame) {
  // Before its hello a peer gets no more memory than a hello needs.
  if (is_client_ == (frame.operation == StoreOperation::hello)) return close();
  limit(host_.frame_timeout());
  operation_ = frame.operation;
  body_.resize(frame.key_bytes + frame.value_bytes);
  asio::async_read(socket_, asio::buffer(body_),
                   [self = shared_from_this(), frame](const asio::error_code& error, std::size_t) {
                     if (error || !self->is_open_) return self->close();
                     self->stop_limit();
                     self->key_ = self->body_.substr(0, frame.key_bytes);
                     self->value_ = self->body_.substr(frame.key_bytes);
                     self->handle();
                   });
}

void ServerSession::handle() {
  switch (operation_) {
    case StoreOperation::hello:
      return handle_hello();
    case StoreOperation::get:
      return handle_get();
    case StoreOperation::set: {
      const Status status = host_.set(key_, value_);
      return status.ok() ? reply(StoreOperation::ok, {}) : reply_refused(status);
    }
    default:
      return close();  // a reply is no request
  }
}

void ServerSession::handle_hello() {
  if (!host_.is_our_job(value_)) return reply(StoreOperation::wrong_job, {});
  if (!host_.admit(*this)) return close();
  is_client_ = true;
  reply(StoreOperation::ok, {});
}

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
  limit(host_.frame_timeout());  // for peers that do not read
  asio::async_write(socket_, asio::buffer(out_),
                    [self = shared_from_this(), operation](const asio::error_code& error, std::size_t) {
                      if (error || !self->is_open_ || operation == StoreOperation::wrong_job) {
                        return self->close();
                      }
                      self->stop_limit();  // clients may be silent as long as they like between frames
                      self->read_header();
                    });
}

}  // namespace ferrule::rendezvous
