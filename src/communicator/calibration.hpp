// Measures the parameters of the cost model on the real thing: a communicator's own collectives, all ranks at
// once, so that what they share (cores, memory, a link) is in the figures. All ranks get the same figures.
#pragma once

#include <string_view>

#include "codec/codec.hpp"
#include "communicator/communicator.hpp"
#include "ferrule/status.hpp"
#include "plan/cost_model.hpp"

namespace ferrule::communicator {

/// Collectives of one communicator that every rank must enter at the same place. They move zeros.
class Calibration {
 public:
  explicit Calibration(Communicator& communicator) : communicator_(communicator) {}

  /// Takes some milliseconds over shared memory, at most about a second over a link of 50 ms.
  Result<plan::LinkModel> link();
  /// Encode with residual, and decode, timed on this rank while the others do the same; the slowest rank's.
  Result<plan::CodecCost> codec(const codec::Codec& codec);

 private:
  struct Timed {
    std::string_view algorithm;
    std::size_t count = 1;
    int repetitions = 1;
  };

  /// Seconds of the fastest all-reduce of some, the same on all ranks.
  Result<double> time(const Timed& timed);
  Result<double> message_seconds(double step);
  Result<double> byte_seconds(const plan::LinkModel& link);
  Status reduce(std::string_view algorithm, std::size_t count);
  /// The largest of all ranks' values.
  Result<double> largest(double mine);

  Communicator& communicator_;
  HugeBuffer zeros_;
};

}  // namespace ferrule::communicator
