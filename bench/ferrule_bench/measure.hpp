// Timing. Cases of one size take turns, iteration by iteration, so that a noisy minute of the machine hits
// all of them alike and their ratios stay meaningful.
#pragma once

#include <span>
#include <vector>

#include "bench/ferrule_bench/workspace.hpp"

namespace ferrule::bench {

/// Warm-up, then the timed iterations of all cases; one Timing a case, the same on every rank. Before each
/// iteration all ranks meet; its time on a rank starts when that rank leaves the meeting.
Result<std::vector<Timing>> measure(const Communicator& comm, const Options& options, Workspace& workspace,
                                    std::span<CaseState> cases, Place place);

/// Wire bytes that one rank (the largest over ranks) sends for the same all-reduce of raw data. `auto` may
/// choose another algorithm for raw data, so there it is 2(n-1)/n of the tensor, what direct and ring send.
Result<std::uint64_t> raw_wire_bytes(const Communicator& comm, Workspace& workspace, const Case& what);

}  // namespace ferrule::bench
