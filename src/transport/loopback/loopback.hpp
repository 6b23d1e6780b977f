// Loopback: the ranks are threads of one process. Payloads are not copied: a receive completes with a view of
// the sender's memory, and the send becomes done when the receiver has released it (payloads up to
// kCopyBytes, and all control messages, are copied instead and their sends are done at once).
//
// Cancelling a send whose message has not been handed to a receive takes it back: the peer will never see it.
// If the peer is reading the payload at that moment, cancel() waits for its release (which ends the send
// well), up to kReleaseLimit; past that the send ends with `timeout` and its payload must be kept. So release
// what you have received before you cancel sends. Destroying a transport cancels its sends likewise.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "transport/inbox.hpp"
#include "transport/loopback/hub.hpp"
#include "transport/registry.hpp"

namespace ferrule::transport::loopback {

inline constexpr std::size_t kCopyBytes = 256;
inline constexpr std::chrono::seconds kReleaseLimit{10};

class LoopbackTransport final : public Transport {
 public:
  LoopbackTransport(const Membership& membership, std::shared_ptr<Hub> hub);
  ~LoopbackTransport() override;

  std::string_view name() const override { return "loopback"; }
  std::int32_t rank() const override { return membership_.rank; }
  std::int32_t size() const override { return membership_.size(); }
  Caps caps() const override;
  Counters counters() const override { return counters_; }

  Status post(const Batch& batch) override;
  Status progress(Deadline deadline) override;
  void wake() override { mailbox_.wake(); }
  void cancel(Recv& recv) override { inbox_.cancel(recv); }
  void cancel(Send& send) override;
  void retire(std::uint32_t sequence) override { inbox_.retire(sequence); }
  void set_control_handler(ControlHandler handler) override {
    inbox_.set_control_handler(std::move(handler));
  }

 private:
  Status check(std::span<Send* const> sends) const;
  void start(Send& send);
  Envelope* take_envelope();
  void finish(Envelope* envelope);
  void end(Send& send, Status status);
  Status peer_lost(std::int32_t peer) const;
  /// One look at the mailbox; true if something happened that progress() must report.
  Result<bool> step();
  Status take_arrivals(bool& woken);
  Status deliver(Envelope* envelope);
  Status fail_receives_from_gone();
  void await_return(Envelope& envelope);

  Membership membership_;
  std::shared_ptr<Hub> hub_;
  Mailbox& mailbox_;
  Inbox inbox_;
  Counters counters_;
  Mailbox::Arrivals arrivals_;        ///< scratch of step()
  std::vector<Envelope*> under_way_;  ///< with a peer, or waiting to be taken from our mailbox
  std::vector<Envelope*> spare_;      ///< ours, to be used again
  std::uint64_t sends_ended_ = 0;
};

}  // namespace ferrule::transport::loopback
