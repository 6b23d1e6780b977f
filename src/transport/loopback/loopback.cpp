#include "transport/loopback/loopback.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <chrono>
#include <thread>
#include <utility>

namespace ferrule::transport::loopback {
namespace {

/// Looks at the mailbox before sleeping. With more ranks than cores this is as fast as pure yielding.
constexpr int kPollRounds = 200;

void release_view(void* /*owner*/, void* handle) { give_back(static_cast<Envelope*>(handle)); }

bool claim_handle(void* handle) { return claim(*static_cast<Envelope*>(handle)); }

}  // namespace

LoopbackTransport::LoopbackTransport(const Membership& membership, std::shared_ptr<Hub> hub)
    : membership_(membership),
      hub_(std::move(hub)),
      mailbox_(hub_->mailbox(membership.rank)),
      inbox_(membership, InboxLimits{}, claim_handle) {}

LoopbackTransport::~LoopbackTransport() {
  for (Envelope* envelope : under_way_) {
    if (envelope->send != nullptr) cancel(*envelope->send);
  }
  Mailbox::Arrivals left = mailbox_.close();
  for (Envelope* envelope : left.incoming) give_back(envelope);
  for (Envelope* envelope : left.returned) delete envelope;
  for (Envelope* envelope : spare_) delete envelope;
  for (std::int32_t peer = 0; peer < size(); ++peer) {
    if (peer != rank()) hub_->mailbox(peer).notice();
  }
}

Caps LoopbackTransport::caps() const {
  // Messages are views, so only the caches limit them: 128 KiB of encoded bytes stay in L2.
  return {.best_message_bytes = std::size_t{128} << 10,
          .max_message_bytes = 0xffffffffu,
          .messages_in_flight = 4,
          .device_memory = true};
}

Status LoopbackTransport::peer_lost(std::int32_t peer) const {
  return {ErrorCode::peer_lost, fmt::format("loopback: {} is gone", membership_.describe(peer))};
}

// ---- sending

Status LoopbackTransport::check(std::span<Send* const> sends) const {
  for (const Send* send : sends) {
    if (send->peer < 0 || send->peer >= size() || send->peer == rank()) {
      return {ErrorCode::invalid_argument,
              fmt::format("send to rank {}: this is rank {} of {}", send->peer, rank(), size())};
    }
    if (send->payload.size() > caps().max_message_bytes) {
      return {ErrorCode::invalid_argument, fmt::format("send of {} bytes: the limit is {}",
                                                       send->payload.size(), caps().max_message_bytes)};
    }
  }
  return {};
}

Status LoopbackTransport::post(const Batch& batch) {
  FERRULE_RETURN_IF_ERROR(check(batch.sends));
  FERRULE_RETURN_IF_ERROR(inbox_.check(batch.recvs));
  for (Recv* recv : batch.recvs) inbox_.post(*recv);
  for (Send* send : batch.sends) start(*send);
  return {};
}

Envelope* LoopbackTransport::take_envelope() {
  if (spare_.empty()) {
    auto* envelope = new Envelope;
    envelope->hub = hub_;
    envelope->source = rank();
    return envelope;
  }
  Envelope* envelope = spare_.back();
  spare_.pop_back();
  return envelope;
}

void LoopbackTransport::start(Send& send) {
  Envelope* envelope = take_envelope();
  envelope->destination = send.peer;
  seal(send.header, envelope->header);
  envelope->payload = send.payload;
  envelope->space = send.space;
  const bool copied = send.space == nullptr &&
                      (send.header.kind == MessageKind::control || send.payload.size() <= kCopyBytes);
  if (copied) {
    envelope->copy.assign(send.payload.begin(), send.payload.end());
    envelope->payload = envelope->copy;
  }
  envelope->state.store(Envelope::State::queued, std::memory_order_relaxed);
  envelope->undelivered = false;
  envelope->pushed = Deadline::Clock::now();
  envelope->send = copied ? nullptr : &send;
  envelope->place = under_way_.size();
  under_way_.push_back(envelope);
  send.done = false;
  send.transport_data = envelope;
  Envelope* const messages[] = {envelope};
  if (!hub_->mailbox(send.peer).push(messages)) {
    envelope->send = nullptr;
    finish(envelope);
    return end(send, peer_lost(send.peer));
  }
  ++counters_.messages_sent;
  counters_.bytes_sent += MessageHeader::kBytes + send.payload.size();
  if (copied) end(send, Status());
}

void LoopbackTransport::end(Send& send, Status status) {
  send.status = std::move(status);
  send.transport_data = nullptr;
  send.done = true;
  ++sends_ended_;
}

// An envelope of ours has come back.
void LoopbackTransport::finish(Envelope* envelope) {
  if (Send* send = std::exchange(envelope->send, nullptr); send != nullptr) {
    end(*send, envelope->undelivered ? peer_lost(envelope->destination) : Status());
  }
  under_way_[envelope->place] = under_way_.back();
  under_way_[envelope->place]->place = envelope->place;
  under_way_.pop_back();
  spare_.push_back(envelope);
}

void LoopbackTransport::cancel(Send& send) {
  if (send.done || send.transport_data == nullptr) return;
  auto& envelope = *static_cast<Envelope*>(send.transport_data);
  auto expected = Envelope::State::queued;
  if (envelope.state.compare_exchange_strong(expected, Envelope::State::withdrawn,
                                             std::memory_order_acq_rel)) {
    envelope.send = nullptr;  // it comes back when the peer finds it withdrawn
    return end(send, Status(ErrorCode::aborted, "the send was cancelled"));
  }
  await_return(envelope);
  if (envelope.state.load(std::memory_order_acquire) == Envelope::State::returned) {
    envelope.send = nullptr;
    return end(send, envelope.undelivered ? peer_lost(send.peer) : Status());
  }
  envelope.send = nullptr;
  end(send,
      Status(ErrorCode::timeout,
             fmt::format("loopback: {} still reads a payload {} s after its send was cancelled; keep the "
                         "payload's memory",
                         membership_.describe(send.peer), kReleaseLimit.count())));
}

// The peer is decoding from our memory. Polls rather than sleeps: arrivals of other kinds would keep the
// mailbox signalled, and the wait is that of one decode.
void LoopbackTransport::await_return(Envelope& envelope) {
  const Deadline limit = Deadline::after(kReleaseLimit);
  for (int round = 0; envelope.state.load(std::memory_order_acquire) != Envelope::State::returned; ++round) {
    if (limit.passed()) return;
    if (round < kPollRounds) {
      sched_yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
}

// ---- progress

Status LoopbackTransport::deliver(Envelope* envelope) {
  Result<MessageHeader> header = open(envelope->header);
  if (!header.ok()) {
    give_back(envelope);
    return {header.status().code(),
            fmt::format("from {}: {}", membership_.describe(envelope->source), header.status().text())};
  }
  ++counters_.messages_received;
  counters_.bytes_received += MessageHeader::kBytes + envelope->payload.size();
  Received message(header.value(), envelope->payload, release_view, nullptr, envelope);
  message.stamp(envelope->pushed);
  message.set_space(envelope->space);
  return inbox_.deliver(std::move(message), envelope->source);
}

Status LoopbackTransport::fail_receives_from_gone() {
  Status first;
  for (std::int32_t peer = 0; peer < size(); ++peer) {
    if (peer == rank() || inbox_.posted(peer) == 0 || !hub_->mailbox(peer).gone()) continue;
    // It had pushed all its messages before it went, but perhaps after our last take: look once more.
    if (mailbox_.signalled()) return {};
    inbox_.fail(peer, peer_lost(peer));
    if (first.ok()) first = peer_lost(peer);
  }
  return first;
}

Status LoopbackTransport::take_arrivals(bool& woken) {
  mailbox_.take(arrivals_);
  woken = arrivals_.woken;
  for (Envelope* envelope : arrivals_.returned) finish(envelope);
  arrivals_.returned.clear();
  Status first;
  for (Envelope* envelope : arrivals_.incoming) {
    if (Status status = deliver(envelope); first.ok()) first = std::move(status);
  }
  arrivals_.incoming.clear();
  return first;
}

Result<bool> LoopbackTransport::step() {
  const std::uint64_t before = sends_ended_ + inbox_.ended();
  bool woken = false;
  FERRULE_RETURN_IF_ERROR(take_arrivals(woken));
  FERRULE_RETURN_IF_ERROR(fail_receives_from_gone());
  const bool handled = inbox_.dispatch_control() != 0;
  return woken || handled || before != sends_ended_ + inbox_.ended();
}

Status LoopbackTransport::progress(Deadline deadline) {
  for (int round = 0;; ++round) {
    if (round == 0 || mailbox_.signalled()) {
      const Result<bool> happened = step();
      if (!happened.ok()) return happened.status();
      if (happened.value()) return {};
    }
    if (deadline.passed()) return {};
    if (round < kPollRounds) {
      sched_yield();
    } else {
      mailbox_.sleep(deadline);
    }
  }
}

}  // namespace ferrule::transport::loopback

namespace ferrule::transport {
namespace {

Result<std::unique_ptr<Transport>> connect(const Membership& membership, const Exchange& /*exchange*/,
                                           Deadline deadline) {
  auto hub = loopback::join(membership, deadline);
  if (!hub.ok()) return hub.status();
  return std::unique_ptr<Transport>(
      std::make_unique<loopback::LoopbackTransport>(membership, std::move(hub).value()));
}

}  // namespace

TransportDesc loopback_transport() {
  return {.name = "loopback", .cross_process = false, .connect = connect};
}

}  // namespace ferrule::transport
