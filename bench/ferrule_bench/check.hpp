// Are the results right, and the same on all ranks?
#pragma once

#include "bench/ferrule_bench/workspace.hpp"

namespace ferrule::bench {

/// Runs options.check_iters all-reduces of the case, starting from empty residuals, and judges each result
/// against the fp64 oracle. The verdict covers all iterations and is the same on every rank.
Result<Verdict> check(const Communicator& comm, const Options& options, Workspace& workspace,
                      CaseState& state, Place place);

/// What decides the data of a case.
DataSpec data_of(const Case& what, const Options& options, int ranks);

}  // namespace ferrule::bench
