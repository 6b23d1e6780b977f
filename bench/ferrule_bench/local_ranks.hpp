// All ways to become ranks: started here as threads or processes, or by a launcher.
#pragma once

#include <string>

#include "bench/ferrule_bench/options.hpp"

namespace ferrule::bench {

/// Runs the benchmark on all ranks that this process is responsible for. Returns the program's exit code;
/// errors are on stderr.
int run_ranks(const Options& options, const std::string& command_line);

}  // namespace ferrule::bench
