#include "transport/loopback/hub.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace ferrule::transport::loopback {

// ---- mailbox

void Mailbox::notify(std::unique_lock<std::mutex> lock) {
  signal_.store(true, std::memory_order_release);
  const bool sleeping = sleeping_;
  lock.unlock();
  if (sleeping) condition_.notify_one();  // no system call for a rank that is awake
}

bool Mailbox::push(std::span<Envelope* const> messages) {
  std::unique_lock lock(mutex_);
  if (gone()) return false;
  arrivals_.incoming.insert(arrivals_.incoming.end(), messages.begin(), messages.end());
  notify(std::move(lock));
  return true;
}

bool Mailbox::give_back(Envelope* envelope) {
  std::unique_lock lock(mutex_);
  if (gone()) return false;
  // Under the lock, so that a sender which sees "returned" also finds the envelope among the returned ones.
  envelope->state.store(Envelope::State::returned, std::memory_order_release);
  arrivals_.returned.push_back(envelope);
  notify(std::move(lock));
  return true;
}

void Mailbox::wake() {
  std::unique_lock lock(mutex_);
  arrivals_.woken = true;
  notify(std::move(lock));
}

void Mailbox::notice() { notify(std::unique_lock(mutex_)); }

void Mailbox::take(Arrivals& arrivals) {
  const std::lock_guard lock(mutex_);
  arrivals_.incoming.swap(arrivals.incoming);
  arrivals_.returned.swap(arrivals.returned);
  arrivals.woken = std::exchange(arrivals_.woken, false);
  signal_.store(false, std::memory_order_relaxed);
}

void Mailbox::sleep(Deadline deadline) {
  // The clamp keeps "never" from overflowing in the C library; whoever sleeps looks again after an hour.
  const auto until = earlier(deadline, Deadline::after(std::chrono::hours(1))).when();
  std::unique_lock lock(mutex_);
  sleeping_ = true;
  condition_.wait_until(lock, until, [&] { return signalled(); });
  sleeping_ = false;
}

Mailbox::Arrivals Mailbox::close() {
  const std::lock_guard lock(mutex_);
  gone_.store(true, std::memory_order_release);
  return std::move(arrivals_);
}

// ---- envelopes

bool claim(Envelope& envelope) {
  auto expected = Envelope::State::queued;
  return envelope.state.compare_exchange_strong(expected, Envelope::State::viewed, std::memory_order_acq_rel);
}

void give_back(Envelope* envelope) {
  envelope->undelivered = envelope->state.load(std::memory_order_acquire) == Envelope::State::queued &&
                          envelope->hub->mailbox(envelope->destination).gone();
  const std::shared_ptr<Hub> hub = envelope->hub;  // the sender may free the envelope at once
  if (!hub->mailbox(envelope->source).give_back(envelope)) delete envelope;
}

// ---- meeting

class Meeting {
 public:
  static Meeting& of_process() {
    static Meeting meeting;
    return meeting;
  }

  Result<std::shared_ptr<Hub>> join(const Membership& membership, Deadline deadline) {
    std::unique_lock lock(mutex_);
    std::shared_ptr<Hub>& slot = hubs_[membership.communicator];
    if (slot == nullptr) slot = std::make_shared<Hub>(membership.peers.size());
    const std::shared_ptr<Hub> hub = slot;
    FERRULE_RETURN_IF_ERROR(enter(*hub, membership));
    const auto until = earlier(deadline, Deadline::after(std::chrono::hours(1))).when();
    if (complete(*hub)) {
      hubs_.erase(membership.communicator);
      joined_.notify_all();
    } else if (!joined_.wait_until(lock, until, [&] { return complete(*hub); })) {
      return give_up(*hub, membership);
    }
    return hub;
  }

 private:
  static bool complete(const Hub& hub) {
    return std::find(hub.joined_.begin(), hub.joined_.end(), 0) == hub.joined_.end();
  }

  static Status enter(Hub& hub, const Membership& membership) {
    if (hub.size() != membership.peers.size()) {
      return {ErrorCode::mismatch,
              fmt::format("loopback: rank {} says that communicator {:#x} has {} ranks, others say {}",
                          membership.rank, membership.communicator, membership.peers.size(), hub.size())};
    }
    char& joined = hub.joined_[static_cast<std::size_t>(membership.rank)];
    if (joined != 0) {
      return {ErrorCode::invalid_argument,
              fmt::format("loopback: rank {} has joined communicator {:#x} already", membership.rank,
                          membership.communicator)};
    }
    joined = 1;
    return {};
  }

  Status give_up(Hub& hub, const Membership& membership) {
    std::string missing;
    for (std::size_t rank = 0; rank < hub.size(); ++rank) {
      if (hub.joined_[rank] == 0) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
    }
    hub.joined_[static_cast<std::size_t>(membership.rank)] = 0;
    const bool empty = std::count(hub.joined_.begin(), hub.joined_.end(), 1) == 0;
    if (empty) hubs_.erase(membership.communicator);
    return {ErrorCode::timeout,
            fmt::format("loopback: rank {} waited for rank {} of {} in vain; ranks must be threads of one "
                        "process here",
                        membership.rank, missing, hub.size())};
  }

  std::mutex mutex_;
  std::condition_variable joined_;
  std::map<std::uint64_t, std::shared_ptr<Hub>> hubs_;  ///< incomplete ones only
};

Result<std::shared_ptr<Hub>> join(const Membership& membership, Deadline deadline) {
  return Meeting::of_process().join(membership, deadline);
}

}  // namespace ferrule::transport::loopback
