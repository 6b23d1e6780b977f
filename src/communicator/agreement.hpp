// Agreement: before data moves, ranks make sure that they are about to do the same.
//
// A plan that is new to a rank is compared along a dissemination pattern (round k: tell rank r + 2^k, hear
// from r - 2^k; Hensgen, Finkel and Manber 1988): ceil(log2 world) small messages a rank, after which nobody
// moves data unless everybody has entered with the same plan. A plan that was agreed before is not compared
// again: every data message carries its identity. Where the two disagree, each rank's recent history lets it
// answer with both values.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "communicator/control.hpp"
#include "ferrule/status.hpp"
#include "plan/plan.hpp"
#include "transport/registry.hpp"

namespace ferrule::communicator {

/// What keys the random bits of stochastic rounding.
struct Draws {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t tensor = 0;
  bool weighted = false;      ///< all ranks give a weight, or none does
  const char* check = "off";  ///< FERRULE_CHECK: all ranks check, or none does
};

/// What a rank does in one collective.
struct Intent {
  std::uint32_t sequence = 0;
  std::uint64_t identity = 0;  ///< of the plan and the draws
  std::shared_ptr<const plan::Plan> plan;
  Draws draws;
  bool agreed_before = false;

  /// "key=value" lines of all that ranks must agree on. Made only when somebody asks: most collectives never
  /// need it.
  std::string descriptor() const;
};

/// Used by the transport's owner only.
class Agreement {
 public:
  Agreement(ControlPlane& control, const transport::Membership& membership, std::uint32_t first_sequence)
      : control_(control), membership_(membership), current_(first_sequence) {}

  /// Begins a collective; call step() until it returns true. What peers have said of it already is taken up.
  void begin(const Intent& intent);
  /// true: go on with the data. false: wait for more messages. An error: a disagreement, known to all ranks.
  Result<bool> step();
  /// After a data message with another identity: asks all ranks what they are doing. One of them will answer
  /// with `failed`, both values in it.
  void ask_all();
  /// A control message has come in. Disagreements that it shows are told to all ranks.
  void take(const ControlMessage& message);
  /// How collective `sequence` failed elsewhere, if it did. A rank that has failed for good in an earlier one
  /// takes part in none any more: then that is why.
  std::optional<Status> failure_of(std::uint32_t sequence) const;
  /// Tells all other ranks that a collective has failed here.
  void tell_failed(std::uint32_t sequence, const Status& why);
  /// Forgets what came in about collectives before this one.
  void finish(std::uint32_t sequence);
  /// Ranks that step() waits for; -1 for none.
  std::int32_t waiting_for() const;

 private:
  struct Heard {
    std::uint64_t identity = 0;
    std::string descriptor;
  };
  struct Record {
    Intent intent;
    bool joined = false;  ///< has sent its own rounds
  };
  /// A rank that can take part in nothing more.
  struct Lost {
    std::uint32_t since = 0;
    Status why;
  };
  static constexpr std::size_t kHistory = 64;
  static constexpr std::size_t kMaxHeard = 4096;

  std::uint32_t rounds() const;
  std::int32_t peer_at(std::int64_t distance) const;
  void send_round(const Intent& intent, std::uint32_t round);
  Record* find(std::uint32_t sequence);
  /// Compares what a peer said with what this rank did or does.
  void compare(Record& record, std::int32_t source, std::uint64_t identity, const std::string& descriptor);
  std::string explain(const Intent& mine, std::int32_t source, const std::string& theirs) const;

  ControlPlane& control_;
  const transport::Membership& membership_;
  std::array<std::optional<Record>, kHistory> history_;
  std::uint32_t current_;
  std::uint32_t round_ = 0;
  bool round_sent_ = false;
  std::map<std::pair<std::uint32_t, std::pair<std::int32_t, std::uint32_t>>, Heard>
      heard_;  // sequence, source, round
  std::map<std::uint32_t, Status> failures_;
  std::optional<Lost> lost_;
};

/// a is at or after b, on a counter that wraps.
inline bool at_or_after(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(a - b) >= 0; }

}  // namespace ferrule::communicator
