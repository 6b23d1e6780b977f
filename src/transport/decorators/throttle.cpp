#include "transport/decorators/throttle.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

namespace ferrule::transport {
namespace {

constexpr std::uint32_t kMaxMessagesInFlight = 512;
/// A sleeping thread comes back this much late; the rest is polled.
constexpr std::chrono::microseconds kPolled{50};

std::size_t wire_bytes(std::size_t payload_bytes) { return MessageHeader::kBytes + payload_bytes; }

}  // namespace

std::unique_ptr<Transport> throttle(std::unique_ptr<Transport> inner, const LinkSpec& spec) {
  return std::make_unique<ThrottleTransport>(std::move(inner), spec);
}

ThrottleTransport::ThrottleTransport(std::unique_ptr<Transport> inner, const LinkSpec& spec)
    : Decorator(std::move(inner), "throttle"), spec_(spec), model_(spec) {
  inner_->set_control_handler([this](const MessageHeader& header, std::span<const std::byte> payload) {
    const TimePoint due = model_.receive(Deadline::Clock::now(), wire_bytes(payload.size()));
    control_.push_back({header, {payload.begin(), payload.end()}, due});
  });
}

ThrottleTransport::~ThrottleTransport() {
  inner_->set_control_handler(nullptr);
  for (const Outgoing& one : outgoing_) end(*one.send, cancelled());
  for (const auto& one : incoming_) {
    if (!one->inner.done) inner_->cancel(one->inner);
    one->inner.message.release();
    end(*one->outer, cancelled());
  }
}

Caps ThrottleTransport::caps() const {
  Caps caps = inner_->caps();
  const double wanted =
      std::ceil(2 * spec_.bandwidth_delay_bytes() / static_cast<double>(caps.best_message_bytes));
  const auto bounded = static_cast<std::uint32_t>(std::min<double>(wanted, kMaxMessagesInFlight));
  caps.messages_in_flight = std::max(caps.messages_in_flight, bounded);
  return caps;
}

// ---- posting

// Sends reach the inner transport later, when it is too late to refuse the batch: so look at them here.
Status ThrottleTransport::check(const Batch& batch) const {
  for (const Send* send : batch.sends) {
    if (send->peer < 0 || send->peer >= size() || send->peer == rank()) {
      return {ErrorCode::invalid_argument,
              fmt::format("send to rank {}: this is rank {} of {}", send->peer, rank(), size())};
    }
  }
  return {};
}

Status ThrottleTransport::post(const Batch& batch) {
  FERRULE_RETURN_IF_ERROR(check(batch));
  FERRULE_RETURN_IF_ERROR(post_receives(batch.recvs));
  queue_sends(batch.sends);
  step(Deadline::Clock::now());
  return {};
}

std::unique_ptr<ThrottleTransport::Incoming> ThrottleTransport::make_incoming(Recv& outer) {
  std::unique_ptr<Incoming> one;
  if (spare_.empty()) {
    one = std::make_unique<Incoming>();
  } else {
    one = std::move(spare_.back());
    spare_.pop_back();
  }
  one->outer = &outer;
  one->timed = false;
  Recv& inner = one->inner;
  inner.done = false;
  inner.status = Status();
  inner.peer = outer.peer;
  inner.sequence = outer.sequence;
  inner.slice = outer.slice;
  inner.ordinal = outer.ordinal;
  inner.plan = outer.plan;
  inner.bytes = outer.bytes;
  return one;
}

Status ThrottleTransport::post_receives(std::span<Recv* const> recvs) {
  if (recvs.empty()) return {};
  const std::size_t before = incoming_.size();
  std::vector<Recv*> inner;
  for (Recv* recv : recvs) {
    incoming_.push_back(make_incoming(*recv));
    inner.push_back(&incoming_.back()->inner);
  }
  if (Status status = inner_->post({{}, inner}); !status.ok()) {
    incoming_.resize(before);
    return status;
  }
  for (Recv* recv : recvs) recv->done = false;
  return {};
}

void ThrottleTransport::queue_sends(std::span<Send* const> sends) {
  const TimePoint now = Deadline::Clock::now();
  for (Send* send : sends) {
    send->done = false;
    outgoing_.push_back({send, model_.leave(now, wire_bytes(send->payload.size()))});
  }
}

// ---- cancelling

void ThrottleTransport::cancel(Send& send) {
  if (send.done) return;
  const auto queued = std::find_if(outgoing_.begin(), outgoing_.end(),
                                   [&](const Outgoing& one) { return one.send == &send; });
  if (queued != outgoing_.end()) {
    outgoing_.erase(queued);
    return end(send, cancelled());
  }
  inner_->cancel(send);
  forget_done_sends();
}

void ThrottleTransport::cancel(Recv& recv) {
  const auto found =
      std::find_if(incoming_.begin(), incoming_.end(), [&](const auto& one) { return one->outer == &recv; });
  if (recv.done || found == incoming_.end()) return;
  Recv& inner = (*found)->inner;
  if (!inner.done) inner_->cancel(inner);
  inner.message.release();
  end(recv, cancelled());
  retire_incoming(static_cast<std::size_t>(found - incoming_.begin()));
  forget_done_sends();
}

void ThrottleTransport::retire_incoming(std::size_t index) {
  std::swap(incoming_[index], incoming_.back());
  spare_.push_back(std::move(incoming_.back()));
  incoming_.pop_back();
}

// ---- events; each returns how many the caller of progress() can see

std::size_t ThrottleTransport::hand_on(TimePoint now) {
  std::size_t failed = 0;
  while (!outgoing_.empty() && outgoing_.front().leaves <= now) {
    Send* send = outgoing_.front().send;
    outgoing_.pop_front();
    Send* const sends[] = {send};
    if (Status status = inner_->post({sends, {}}); !status.ok()) {
      end(*send, std::move(status));
      ++failed;
    } else {
      handed_.push_back(send);
    }
  }
  return failed;
}

std::size_t ThrottleTransport::forget_done_sends() {
  return std::erase_if(handed_, [](const Send* send) { return send->done; });
}

// Messages that came in since the last look take the card's time in order of arrival.
void ThrottleTransport::time_receives() {
  std::vector<Incoming*> arrived;
  for (const auto& one : incoming_) {
    if (one->inner.done && !one->timed) arrived.push_back(one.get());
  }
  std::stable_sort(arrived.begin(), arrived.end(), [](const Incoming* a, const Incoming* b) {
    return a->inner.message.arrived() < b->inner.message.arrived();
  });
  for (Incoming* one : arrived) {
    const Received& message = one->inner.message;
    one->timed = true;
    one->due = TimePoint::min();  // of one that failed: there is nothing to wait for
    if (!one->inner.status.ok()) continue;
    // A transport that does not stamp arrivals makes latency count from here.
    const TimePoint seen = message.arrived() == TimePoint{} ? Deadline::Clock::now() : message.arrived();
    one->due = model_.receive(seen, wire_bytes(message.payload().size()));
  }
}

std::size_t ThrottleTransport::finish_receives(TimePoint now) {
  std::size_t finished = 0;
  for (std::size_t i = 0; i < incoming_.size();) {
    Incoming& one = *incoming_[i];
    if (!one.timed || one.due > now) {
      ++i;
      continue;
    }
    one.outer->message = std::move(one.inner.message);
    one.outer->message.stamp(one.due);
    end(*one.outer, std::move(one.inner.status));
    retire_incoming(i);
    ++finished;
  }
  return finished;
}

std::size_t ThrottleTransport::finish_control(TimePoint now) {
  std::size_t finished = 0;
  while (!control_.empty() && control_.front().due <= now && handler_ != nullptr) {
    const Control control = std::move(control_.front());
    control_.pop_front();
    handler_(control.header, control.payload);
    ++finished;
  }
  return finished;
}

std::size_t ThrottleTransport::step(TimePoint now) {
  std::size_t seen = hand_on(now);
  seen += forget_done_sends();
  time_receives();
  return seen + finish_receives(now);
}

ThrottleTransport::TimePoint ThrottleTransport::next_event() const {
  TimePoint next = TimePoint::max();
  if (!outgoing_.empty()) next = outgoing_.front().leaves;
  if (!control_.empty() && handler_ != nullptr) next = std::min(next, control_.front().due);
  for (const auto& one : incoming_) {
    if (one->timed) next = std::min(next, one->due);
  }
  return next;
}

// ---- progress

/// Lets the inner transport work until the next event, at most until the deadline.
Status ThrottleTransport::wait(Deadline deadline) {
  const TimePoint next = next_event();
  if (next == TimePoint::max()) return inner_->progress(deadline);
  const Deadline sleep_until(next - kPolled);
  if (!sleep_until.passed()) return inner_->progress(earlier(deadline, sleep_until));
  sched_yield();
  return inner_->progress(Deadline(TimePoint::min()));
}

void ThrottleTransport::wake() {
  woken_.store(true, std::memory_order_release);
  inner_->wake();
}

Status ThrottleTransport::progress(Deadline deadline) {
  while (true) {
    const TimePoint now = Deadline::Clock::now();
    const std::size_t seen = step(now) + finish_control(now);
    if (seen != 0 || woken_.exchange(false, std::memory_order_acq_rel)) return {};
    const Status status = wait(deadline);
    const std::size_t late = step(Deadline::Clock::now()) + finish_control(Deadline::Clock::now());
    if (!status.ok()) return status;
    if (late != 0 || woken_.exchange(false, std::memory_order_acq_rel) || deadline.passed()) return {};
  }
}

}  // namespace ferrule::transport
