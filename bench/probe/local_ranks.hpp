// All ways to become ranks: started here as threads or processes, or by a launcher.
#pragma once

#include <string>

#include "bench/probe/options.hpp"

namespace ferrule::probe {

/// Probes with all ranks that this process is responsible for; rank 0 reports. Returns the program's exit
/// code; errors are on stderr.
int run_ranks(const Options& options, const std::string& command_line);

}  // namespace ferrule::probe
