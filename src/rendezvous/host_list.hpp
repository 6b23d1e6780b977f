// Slurm's short form of host lists: "node[1-3,07],login,gpu[001-004]-ib".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule::rendezvous {

/// All hosts, in order; at most 65,536. Several brackets in a name multiply.
Result<std::vector<std::string>> expand_host_list(std::string_view text);

}  // namespace ferrule::rendezvous
