// Weights of a mean: each rank gives one, all learn the sum of all.
//
// An all-gather in ceil(log2 world) rounds (Bruck and others 1997): in round k, a rank gives what it has to
// r - 2^k and hears from r + 2^k. All then add the same numbers in the order of ranks: the same bits
// everywhere.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "communicator/control.hpp"
#include "ferrule/status.hpp"
#include "ferrule/types.hpp"
#include "transport/registry.hpp"

namespace ferrule::communicator {

/// Used by the transport's owner only.
class WeightExchange {
 public:
  WeightExchange(ControlPlane& control, const transport::Membership& membership)
      : control_(control), membership_(membership) {}

  /// Call step() until it returns true.
  void begin(std::uint32_t sequence, double weight);
  /// true: sum() is known. false: wait for more messages. `invalid_argument`, on all ranks alike: no mean has
  /// these weights.
  Result<bool> step();
  double sum() const { return sum_; }
  /// Weights have come in.
  void take(const ControlMessage& message);
  /// Forgets what came in about collectives before this one.
  void finish(std::uint32_t sequence);
  /// A rank that step() waits for; -1 for none.
  std::int32_t waiting_for() const { return waiting_for_; }

 private:
  using Key = std::pair<std::uint32_t, std::pair<std::int32_t, std::uint32_t>>;  // sequence, source, part
  static constexpr std::size_t kMaxHeard = 4096;

  void send_first(std::size_t count, std::uint32_t round);
  /// False: not all of it is here.
  Result<bool> hear(std::size_t count, std::uint32_t round);
  Status add_up();

  ControlPlane& control_;
  const transport::Membership& membership_;
  std::uint32_t sequence_ = 0;
  std::uint32_t round_ = 0;
  bool round_sent_ = false;
  std::int32_t waiting_for_ = -1;
  std::vector<double> weights_;  ///< from this rank on, round the ring of ranks
  double sum_ = 0;
  std::map<Key, std::string> heard_;
};

/// to[i] = from[i] * factor, in fp32 (fp64 for f64), rounded to the dtype. Floats only.
void scale_elements(const void* from, void* to, std::size_t count, DType dtype, double factor);

}  // namespace ferrule::communicator
