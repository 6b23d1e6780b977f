// What a schedule costs: its steps as sends and computations, each with the messages that it must wait for.
// Additions are fused into the encode or decode that uses them, and copies that a raw codec saves are free,
// as in the executor.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "bench/sim/codecs.hpp"
#include "collectives/schedule.hpp"
#include "ferrule/status.hpp"

namespace ferrule::sim {

struct Message {
  std::int32_t peer = -1;
  std::uint32_t ordinal = 0;  ///< this is the ordinal-th message of a slice to, or from, that peer
  std::uint32_t chunk = 0;

  friend bool operator==(const Message&, const Message&) = default;
};

inline constexpr std::uint32_t kNoMessage = std::numeric_limits<std::uint32_t>::max();

/// Waits for receives needs[first_need ...], then computes, or sends.
struct Action {
  double ns_per_byte = 0;  ///< of the chunk's raw bytes
  std::uint32_t chunk = 0;
  std::uint32_t first_need = 0;
  std::uint32_t need_count = 0;
  std::uint32_t send = kNoMessage;  ///< index into sends
  std::uint8_t level = 0;           ///< send: whose codec the bytes are in
};

struct Program {
  std::vector<Action> actions;
  std::vector<std::uint32_t> needs;  ///< receives; ascending within an action, for their order is no matter
  std::vector<Message> sends;
  std::vector<Message> receives;
};

/// O(steps). An error means that the schedule breaks its own rules.
Result<Program> timed_program(const collectives::Schedule& schedule, const Codecs& codecs);

}  // namespace ferrule::sim
