// The matching engine that all message transports share: brings posted receives and arriving messages
// together, whichever comes first. Knows nothing of how bytes move. Owner's thread only; no locks.
//
// A peer's header is input to be checked, never to be trusted: wrong communicators, impossible sources,
// contradictory lengths, repeated messages and floods are errors that name the peer. Nothing is allocated
// from a number that a peer sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ferrule/status.hpp"
#include "transport/match_table.hpp"
#include "transport/registry.hpp"
#include "transport/transport.hpp"

namespace ferrule::transport {

/// What one peer may have queued here: messages without a receive, and control messages not yet handled.
struct InboxLimits {
  std::uint32_t messages = 8192;
  std::size_t bytes = std::size_t{1} << 30;  ///< one message may always be queued, however long
};

class Inbox {
 public:
  /// Asked just before a message is handed to a receive: false if the sender has taken it back meanwhile (it
  /// is then dropped, and the receive goes on waiting). For transports whose senders can do that.
  using Claim = bool (*)(void* handle);

  explicit Inbox(const Membership& membership, InboxLimits limits = {}, Claim claim = nullptr);

  /// Whether these receives may be posted: peers exist, sequences are not retired, none is posted twice. The
  /// text names the bad one. Changes nothing; costs a look-up per receive.
  Status check(std::span<Recv* const> recvs) const;
  /// Posts a receive that check() accepts. It may be done on return, with a message that came early.
  void post(Recv& recv);

  /// Takes an arrived message whose header came out of open(). `from` is the rank that the connection belongs
  /// to, -1 where the transport cannot tell. An error is fatal for the communicator: the peer or the fabric
  /// misbehaves. That ranks disagree is none: it ends the receive with `mismatch`. Data is matched here;
  /// control messages are queued for dispatch_control().
  Status deliver(Received message, std::int32_t from = -1);

  /// Hands queued control messages to the handler, in order of arrival; returns how many. Call it from
  /// progress(), outside of callbacks of the fabric: the handler may post. Without a handler they stay
  /// queued.
  std::size_t dispatch_control();
  void set_control_handler(ControlHandler handler) { handler_ = std::move(handler); }
  bool control_waiting() const { return !control_.empty() && handler_ != nullptr; }

  /// Ends a posted receive as aborted. One that is done, or was never posted, is left alone.
  void cancel(Recv& recv);
  /// Ends all posted receives from a peer with this status; returns how many.
  std::size_t fail(std::int32_t peer, const Status& status);
  /// See Transport::retire. Sequences wrap: `a` is at or before `b` if (b - a) mod 2^32 < 2^31.
  void retire(std::uint32_t sequence);

  /// Posted receives from a peer that wait for their message.
  std::uint32_t posted(std::int32_t peer) const { return peers_[static_cast<std::size_t>(peer)].posted; }
  /// Receives that have ended so far, well or not: compare before and after to see whether progress was made.
  std::uint64_t ended() const { return ended_; }
  /// Messages queued, data and control.
  std::size_t queued() const;

 private:
  struct PeerState {
    std::uint32_t posted = 0;
    std::uint32_t queued = 0;
    std::size_t queued_bytes = 0;
  };

  PeerState& state(std::int32_t peer) { return peers_[static_cast<std::size_t>(peer)]; }
  bool retired(std::uint32_t sequence) const;
  Status check_header(const MessageHeader& header, std::size_t payload_bytes, std::int32_t from) const;
  Status reserve(const MessageHeader& header);
  void unreserve(const MessageHeader& header);
  Status deliver_data(Received message);
  Status deliver_control(Received message);
  Status queue_early(const MatchKey& key, Received message);
  Received take_early(std::uint32_t index);
  bool complete(Recv& recv, Received& message);
  Status verify(const Recv& recv, const Received& message) const;
  void end(Recv& recv, Status status);
  std::string label(const MessageHeader& header) const;

  Membership membership_;
  InboxLimits limits_;
  Claim claim_;
  ControlHandler handler_;
  std::optional<std::uint32_t> retired_;
  std::vector<PeerState> peers_;
  MatchTable table_;
  std::vector<Received> early_;            ///< places of early messages, reused
  std::vector<std::uint32_t> early_free_;  ///< indices of free places
  std::vector<Received> control_;
  std::uint64_t ended_ = 0;
};

}  // namespace ferrule::transport
