// Planted faults as text: "drop:nth=5;delay:nth=3,ms=50,rank=1".
#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule::transport {

enum class FaultKind : std::uint8_t {
  drop,             ///< the message is never sent; its send is done as if it had been
  delay,            ///< it is sent `delay` later; later ones overtake it
  corrupt_header,   ///< its header names another communicator
  corrupt_payload,  ///< one bit of its payload is flipped
  truncate,         ///< the last `bytes` bytes are missing; the header still says the full length
  die,              ///< it and everything after it is not sent, and nothing is received any more
};

struct Fault {
  FaultKind kind = FaultKind::drop;
  std::uint64_t nth = 1;                       ///< the rank's nth data send from the start; 1 is the first
  std::int32_t rank = -1;                      ///< the rank that has this fault; -1: every rank
  std::chrono::nanoseconds delay{50'000'000};  ///< key ms
  std::uint64_t bytes = 1;
  std::uint64_t seed = 1;  ///< chooses the bit that corrupt_header and corrupt_payload flip
};

struct FaultPlan {
  std::vector<Fault> faults;

  /// kind:nth=N[,key=value...][;kind:...]. Keys: nth, rank, seed, ms (delay), bytes (truncate). The error
  /// names the bad word and the choices.
  static Result<FaultPlan> parse(std::string_view text);
};

}  // namespace ferrule::transport
