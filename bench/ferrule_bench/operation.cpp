#include "bench/ferrule_bench/operation.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>

#include "bench/ferrule_bench/statistics.hpp"

namespace ferrule::bench {
namespace {

constexpr std::string_view kNames[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce",
                                       "gather",     "scatter",        "alltoall",   "sendrecv"};
constexpr std::string_view kPerf = "_perf";

}  // namespace

Result<Operation> parse_operation(std::string_view text) {
  if (text.ends_with(kPerf)) text.remove_suffix(kPerf.size());
  for (std::size_t i = 0; i < std::size(kNames); ++i) {
    if (text == kNames[i]) return static_cast<Operation>(i);
  }
  return Status(ErrorCode::invalid_argument,
                fmt::format("no operation '{}' (--operation); there are: {}", text, fmt::join(kNames, ", ")));
}

std::string_view name(Operation operation) { return kNames[static_cast<std::size_t>(operation)]; }

std::string_view collective_name(Operation operation) {
  if (operation == Operation::alltoall) return "all_to_all";
  return operation == Operation::sendrecv ? std::string_view() : name(operation);
}

bool reduces(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
         operation == Operation::reduce;
}

bool takes_codecs(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::reduce_scatter ||
         operation == Operation::all_gather;
}

bool replicates(Operation operation) {
  return operation == Operation::all_reduce || operation == Operation::all_gather ||
         operation == Operation::broadcast;
}

bool has_parts(Operation operation) {
  return operation != Operation::all_reduce && operation != Operation::broadcast &&
         operation != Operation::reduce && operation != Operation::sendrecv;
}

bool is_apart(Operation operation) {
  return operation == Operation::alltoall || operation == Operation::sendrecv;
}

double bus_factor(Operation operation, int ranks) {
  if (operation == Operation::all_reduce) return bus_factor(ranks);
  if (has_parts(operation)) return bus_factor(ranks) / 2;
  return ranks > 1 ? 1 : 0;
}

}  // namespace ferrule::bench
