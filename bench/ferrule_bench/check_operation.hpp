// Checks the results of collectives other than the all-reduce.
#pragma once

#include "bench/ferrule_bench/options.hpp"
#include "bench/ferrule_bench/workspace.hpp"
#include "ferrule/ferrule.hpp"

namespace ferrule::bench {

/// As check() does for the all-reduce: runs the case, compares what each rank has got with what the others
/// put in, and tells all ranks.
Result<Verdict> check_operation(const Communicator& comm, const Options& options, Workspace& workspace,
                                CaseState& state, Place place);

}  // namespace ferrule::bench
