// Rounds: which messages of a schedule travel together, where a transport moves them in groups.
//
// A group of NCCL's begins when all of its messages can be sent and ends when all have arrived, and groups of
// a communicator run one after another. So both ends of a message must put it into the same group, and a
// message must come in a later group than those that it is made of. The round of a message is the length of
// the longest chain of messages that it is made of, itself included: the same on all ranks, and no schedule
// can do with fewer. direct has 2, ring 2 (N - 1).
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/schedule.hpp"
#include "collectives/topology.hpp"
#include "ferrule/status.hpp"

namespace ferrule::collectives {

struct Rounds {
  /// Rounds are 1 ... count. 0: before any message.
  std::uint32_t count = 0;
  /// By number of the send, and of the receive, in the rank's schedule.
  std::vector<std::uint32_t> sends;
  std::vector<std::uint32_t> receives;
  /// By round: the chunk that each rank sends, where in this round every rank sends one slot to all others
  /// and nothing else, a chunk of its own or all the same one. Else empty.
  std::vector<std::vector<std::uint32_t>> gathered;
};

/// Of `rank`. Cost: O(steps of all ranks' schedules). `internal`: the schedule waits for itself.
Result<Rounds> find_rounds(const AlgorithmDesc& algorithm, const Topology& topology, std::int32_t rank);

}  // namespace ferrule::collectives
