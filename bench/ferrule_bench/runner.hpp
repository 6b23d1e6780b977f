// The whole benchmark on one rank.
#pragma once

#include <string>

#include "bench/ferrule_bench/options.hpp"
#include "ferrule/ferrule.hpp"

namespace ferrule::bench {

struct RankOutcome {
  int rank = 0;
  bool passed = true;  ///< no wrong element and no difference between ranks
};

/// All ranks of `comm` call this with the same options. Rank 0 prints the table and writes the JSON file.
Result<RankOutcome> run_rank(const Communicator& comm, const Options& options,
                             const std::string& command_line);

}  // namespace ferrule::bench
