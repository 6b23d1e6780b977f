// Gives a transport the bandwidth and latency of a chosen link, in user space: a send is handed on when its
// last bit would have left this rank's network card, a receive completes when its last bit would have
// arrived. Between events it sleeps in the inner transport; only the last 50 us before one are polled.
//
// A rank that computes without calling progress() does not send meanwhile, as with any transport that its
// caller drives; the card's time goes on, so that the bandwidth over a longer time is still the link's.
#pragma once

#include <atomic>
#include <cstddef>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "transport/decorators/decorator.hpp"
#include "transport/decorators/link.hpp"

namespace ferrule::transport {

class ThrottleTransport final : public Decorator {
 public:
  ThrottleTransport(std::unique_ptr<Transport> inner, const LinkSpec& spec);
  ~ThrottleTransport() override;

  /// Messages in flight grow so that twice the bandwidth-delay product is covered, up to 512.
  Caps caps() const override;
  Status post(const Batch& batch) override;
  Status progress(Deadline deadline) override;
  void wake() override;
  void cancel(Recv& recv) override;
  void cancel(Send& send) override;
  void set_control_handler(ControlHandler handler) override { handler_ = std::move(handler); }

 private:
  using TimePoint = LinkModel::TimePoint;

  struct Outgoing {
    Send* send;
    TimePoint leaves;
  };
  /// A receive of the caller's, and the one that is posted in its place so that its end can be held back.
  struct Incoming {
    Recv* outer = nullptr;
    Recv inner;
    bool timed = false;  ///< inner is done and `due` is known
    TimePoint due{};
  };
  struct Control {
    MessageHeader header;
    std::vector<std::byte> payload;
    TimePoint due;
  };

  Status check(const Batch& batch) const;
  std::unique_ptr<Incoming> make_incoming(Recv& outer);
  void retire_incoming(std::size_t index);
  Status post_receives(std::span<Recv* const> recvs);
  void queue_sends(std::span<Send* const> sends);
  std::size_t hand_on(TimePoint now);
  std::size_t forget_done_sends();
  void time_receives();
  std::size_t finish_receives(TimePoint now);
  std::size_t finish_control(TimePoint now);
  std::size_t step(TimePoint now);
  Status wait(Deadline deadline);
  TimePoint next_event() const;

  LinkSpec spec_;
  LinkModel model_;
  ControlHandler handler_;
  std::deque<Outgoing> outgoing_;  ///< in order of leaving
  std::vector<Send*> handed_;      ///< with the inner transport, not done
  std::vector<std::unique_ptr<Incoming>> incoming_;
  std::vector<std::unique_ptr<Incoming>> spare_;  ///< to be used again
  std::deque<Control> control_;                   ///< in order of due
  std::atomic<bool> woken_{false};
};

std::unique_ptr<Transport> throttle(std::unique_ptr<Transport> inner, const LinkSpec& spec);

}  // namespace ferrule::transport
