// What the ranks of a loopback communicator share: a mailbox each, and the place where they meet.
//
// A message is an envelope. Its payload stays in the sender's memory; the receiver reads it there and returns
// the envelope to the sender's mailbox, which makes the send done. An envelope keeps the hub alive, so that a
// view may be given back after either transport was destroyed.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "ferrule/status.hpp"
#include "transport/message.hpp"
#include "transport/registry.hpp"
#include "transport/transport.hpp"

namespace ferrule::transport::loopback {

class Hub;

struct Envelope {
  /// Who may touch the payload. queued -> viewed by the receiver, queued -> withdrawn by the sender: whoever
  /// comes first. viewed -> returned by the receiver, after which the sender may reuse the payload.
  enum class State : std::uint8_t { queued, viewed, withdrawn, returned };

  std::shared_ptr<Hub> hub;
  std::int32_t source = -1;
  std::int32_t destination = -1;
  HeaderBytes header;                  ///< sealed, like on any wire
  std::span<const std::byte> payload;  ///< sender's memory, or `copy`
  const MemorySpace* space = nullptr;  ///< the payload's; null: the host
  std::vector<std::byte> copy;         ///< of a payload so small that waiting for its return costs more
  Deadline::Clock::time_point pushed;  ///< when it came into the mailbox
  std::atomic<State> state{State::queued};
  bool undelivered = false;  ///< returned by a rank that went without having read it
  Send* send = nullptr;      ///< sender's thread only; null once the send is done
  std::size_t place = 0;     ///< sender's thread only: index among its envelopes under way
};

/// One rank's arrivals. The lock is held for a few instructions only.
class Mailbox {
 public:
  struct Arrivals {
    std::vector<Envelope*> incoming;  ///< messages to this rank
    std::vector<Envelope*> returned;  ///< messages of this rank that their receivers have given back
    bool woken = false;
  };

  /// False if this rank has gone: the envelopes stay with the caller.
  bool push(std::span<Envelope* const> messages);
  bool give_back(Envelope* envelope);
  void wake();
  /// Makes the owner look at the other ranks' `gone` flags.
  void notice();

  /// Whether take() would find something. No lock: for polling.
  bool signalled() const { return signal_.load(std::memory_order_acquire); }
  /// Swaps the arrivals into `arrivals`, whose vectors must be empty (they keep their capacity).
  void take(Arrivals& arrivals);
  /// Sleeps until signalled or the deadline.
  void sleep(Deadline deadline);
  /// Nothing is accepted from now on. Returns what was left.
  Arrivals close();
  bool gone() const { return gone_.load(std::memory_order_acquire); }

 private:
  void notify(std::unique_lock<std::mutex> lock);

  std::mutex mutex_;
  std::condition_variable condition_;
  Arrivals arrivals_;
  bool sleeping_ = false;
  std::atomic<bool> signal_{false};
  std::atomic<bool> gone_{false};
};

class Hub {
 public:
  explicit Hub(std::size_t size) : mailboxes_(size), joined_(size, 0) {}

  Mailbox& mailbox(std::int32_t rank) { return mailboxes_[static_cast<std::size_t>(rank)]; }
  std::size_t size() const { return mailboxes_.size(); }

 private:
  friend class Meeting;
  std::vector<Mailbox> mailboxes_;
  std::vector<char> joined_;  ///< guarded by the meeting's lock
};

/// Joins the hub of membership.communicator and waits until all ranks have. At the deadline: `timeout`,
/// naming those who are missing. Once complete, the identity is free for another communicator.
Result<std::shared_ptr<Hub>> join(const Membership& membership, Deadline deadline);

/// Receiver: true if the payload is now the receiver's to read, false if the sender has taken it back.
bool claim(Envelope& envelope);
/// Receiver: returns an envelope to its sender, or frees it if the sender has gone.
void give_back(Envelope* envelope);

}  // namespace ferrule::transport::loopback
