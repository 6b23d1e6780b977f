// FERRULE_CHECK=identity: after each collective, ranks compare a hash of what they hold.
//
// The hashes go round along the pattern of the agreement (round k: tell rank r + 2^k, hear from r - 2^k):
// after ceil(log2 world) messages of 64 bytes a rank, all know whether all are equal. Only if they are not
// does each rank send its hash to every other, so that all can name the odd one.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "communicator/control.hpp"
#include "ferrule/status.hpp"
#include "transport/registry.hpp"

namespace ferrule::communicator {

/// Used by the transport's owner only.
class IdentityCheck {
 public:
  IdentityCheck(ControlPlane& control, const transport::Membership& membership)
      : control_(control), membership_(membership) {}

  /// The result of this rank is there; `what` names the collective in errors. Call step() until it returns
  /// true.
  void begin(const std::string& what, std::uint32_t sequence, std::uint64_t hash);
  /// true: all ranks hold the same. false: wait for more messages. `corrupt`: they do not, the text says who.
  Result<bool> step();
  /// A hash has come in.
  void take(const ControlMessage& message);
  /// Forgets what came in about collectives before this one.
  void finish(std::uint32_t sequence);
  /// A rank that step() waits for; -1 for none.
  std::int32_t waiting_for() const { return waiting_for_; }

 private:
  struct Heard {
    std::uint64_t hash;
    bool equal;
  };
  using Key = std::pair<std::uint32_t, std::pair<std::int32_t, std::uint32_t>>;  // sequence, source, round
  static constexpr std::uint32_t kToAll = 0xffffffffU;
  static constexpr std::size_t kMaxHeard = 1 << 16;

  Result<bool> name_the_odd_one();
  Status explain(const std::vector<std::uint64_t>& hashes) const;

  ControlPlane& control_;
  const transport::Membership& membership_;
  std::string what_;
  std::uint32_t sequence_ = 0;
  std::uint64_t hash_ = 0;
  std::uint32_t round_ = 0;
  bool round_sent_ = false;
  bool equal_ = true;
  bool told_all_ = false;
  std::int32_t waiting_for_ = -1;
  std::map<Key, Heard> heard_;
};

}  // namespace ferrule::communicator
