// How far an all-reduce may be from the exact sum, for a codec, an algorithm and a number of ranks.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "codec/error_bound.hpp"
#include "collectives/schedule.hpp"
#include "ferrule/status.hpp"

namespace ferrule::communicator {

/// Where the topology matters and FERRULE_TOPOLOGY does not give it: the largest bound of all hosts that the
/// ranks may be on.
class SumBounds {
 public:
  /// `algorithm` may be "auto". `sum.encodes` is filled in.
  static Result<SumBounds> make(std::shared_ptr<const codec::Codec> codec, std::string_view algorithm,
                                codec::SumBound sum);

  /// `magnitude`: see codec::sum_error_bound.
  double at(double magnitude) const;

 private:
  struct Case {
    std::vector<codec::CodecUse> uses;
    codec::SumBound sum;
  };

  Status add_topologies(const collectives::AlgorithmDesc& algorithm, const codec::SumBound& sum);
  Status add(const collectives::AlgorithmDesc& algorithm, const collectives::Topology& topology,
             codec::SumBound sum);

  std::shared_ptr<const codec::Codec> codec_;
  std::shared_ptr<const codec::Codec> raw_;
  std::vector<Case> cases_;
};

}  // namespace ferrule::communicator
