// What is measured: the all-reduce, or one of the other collectives, by nccl-tests' names.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "ferrule/status.hpp"
#include "ferrule/types.hpp"

namespace ferrule::bench {

enum class Operation : std::uint8_t {
  all_reduce,
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  alltoall,
  sendrecv,
};

/// As nccl-tests calls it, e.g. "alltoall"; "alltoall_perf" is understood too.
Result<Operation> parse_operation(std::string_view text);
std::string_view name(Operation operation);
/// What ferruleCollectiveAlgorithmNames calls it; empty for sendrecv, which has no algorithms.
std::string_view collective_name(Operation operation);

/// Contributions are added up; else they are only moved.
bool reduces(Operation operation);
/// Takes lossy codecs.
bool takes_codecs(Operation operation);
/// All ranks end with the same tensor.
bool replicates(Operation operation);
/// Each rank has a part of the tensor: sizes are rounded down to whole parts.
bool has_parts(Operation operation);
/// Never in place: both halves of the table are out of place.
bool is_apart(Operation operation);

/// busbw / algbw, as nccl-tests has it: how often the tensor crosses a rank's link at best. 0 for one rank.
double bus_factor(Operation operation, int ranks);

}  // namespace ferrule::bench
