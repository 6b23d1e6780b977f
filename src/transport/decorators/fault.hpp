// Plants faults in a transport, to prove that what stands above it notices them. Faults act on this rank's
// data sends, counted from 1 in order of posting; control messages pass untouched until `die`.
//
// A payload is never changed in place, since a zero-copy transport would show its owner the damage: a private
// copy is sent instead, and the caller's send is done at once. corrupt_header works above the sealing of
// headers, where a flipped bit would be sealed with a right checksum; so it makes the header name another
// communicator, which the receiver's own check has to find. After `die` this rank's calls fail with `aborted`
// and the inner transport is no longer driven: its peers see silence, then a lost peer once it is destroyed.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "transport/decorators/decorator.hpp"
#include "transport/decorators/fault_plan.hpp"

namespace ferrule::transport {

class FaultTransport final : public Decorator {
 public:
  FaultTransport(std::unique_ptr<Transport> inner, const FaultPlan& plan);
  ~FaultTransport() override;

  /// Payloads are in host memory, where they can be spoilt.
  Caps caps() const override {
    Caps caps = inner_->caps();
    caps.device_memory = false;
    return caps;
  }
  Status post(const Batch& batch) override;
  /// While a message is held back it may return early.
  Status progress(Deadline deadline) override;
  void cancel(Recv& recv) override { inner_->cancel(recv); }
  void cancel(Send& send) override;

 private:
  /// A spoilt message on its way.
  struct Private {
    Send send;
    std::vector<std::byte> payload;
  };
  struct Held {
    Send* send;
    Deadline due;
  };
  /// A batch after the faults: what goes on, and what is then done or held.
  struct Sorted {
    std::vector<Send*> pass;
    std::vector<Send*> finished;
    std::vector<std::unique_ptr<Private>> spoilt;
    std::vector<Held> held;
    const Fault* death = nullptr;
  };

  const Fault* next_fault();
  void sort(Send& send, Sorted& sorted);
  static std::unique_ptr<Private> spoil(const Send& send, const Fault& fault);
  void hand_on_held();
  void forget_done();
  Status dead() const;

  std::vector<Fault> faults_;  ///< of this rank
  std::uint64_t sends_ = 0;
  const Fault* death_ = nullptr;
  std::vector<std::unique_ptr<Private>> spoilt_;
  std::vector<Held> held_;
};

/// `inner` with the faults that the plan has for its rank.
std::unique_ptr<Transport> inject(std::unique_ptr<Transport> inner, const FaultPlan& plan);

}  // namespace ferrule::transport
