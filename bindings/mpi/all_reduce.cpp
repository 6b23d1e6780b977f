#include "bindings/mpi/all_reduce.hpp"

#include <chrono>
#include <cmath>
#include <vector>

#include "bindings/mpi/failure.hpp"
#include "bindings/mpi/group.hpp"
#include "bindings/mpi/options.hpp"
#include "bindings/mpi/requests.hpp"
#include "bindings/mpi/tally.hpp"

namespace ferrule::mpi {
namespace {

using Clock = std::chrono::steady_clock;

// Fortran's REAL is a float on every machine that MPI is built for, unless a compiler option widens it.
bool is_float(MPI_Datatype dtype) {
  if (dtype == MPI_FLOAT) return true;
  const auto is = [&](MPI_Datatype type, int bytes) {
    int size = 0;
    return type != MPI_DATATYPE_NULL && dtype == type && PMPI_Type_size(type, &size) == MPI_SUCCESS &&
           size == bytes;
  };
  return is(MPI_REAL, 4) || is(MPI_REAL4, 4);
}

bool is_candidate(const Call& call) {
  if (call.op != MPI_SUM || call.comm == MPI_COMM_NULL || call.count <= 0 || !is_float(call.dtype)) {
    return false;
  }
  if (static_cast<std::uint64_t>(call.count) * sizeof(float) < options().min_bytes) return false;
  int between = 0;
  return PMPI_Comm_test_inter(call.comm, &between) == MPI_SUCCESS && between == 0;
}

std::nullopt_t pass_on() {
  watch_finalize();
  tally().passed_on();
  return std::nullopt;
}

std::uint64_t tensor_bytes(const Call& call) {
  return static_cast<std::uint64_t>(call.count) * sizeof(float);
}

// What a rank sends of an uncompressed tensor at least.
std::uint64_t raw_bytes(const Call& call, const Group& group) {
  const auto ranks = static_cast<std::uint64_t>(group.size);
  return 2 * (ranks - 1) * tensor_bytes(call) / ranks;
}

const void* source(const Call& call) { return call.send == MPI_IN_PLACE ? call.recv : call.send; }

std::uint64_t bytes_sent(const Group& group) {
  ferruleStats_t stats{};
  stats.struct_bytes = sizeof stats;
  return ferruleCommStats(group.comm, &stats) == ferruleSuccess ? stats.bytes_sent : 0;
}

bool is_to_be_measured(const Group& group) {
  const std::uint64_t every = options().measure;
  return every != 0 && group.calls % every == 0;
}

// MPI's own sum of what went in, against what came out.
void measure(const Call& call, std::vector<float>& input) {
  if (PMPI_Allreduce(MPI_IN_PLACE, input.data(), static_cast<int>(input.size()), MPI_FLOAT, MPI_SUM,
                     call.comm) != MPI_SUCCESS) {
    return;
  }
  const auto* result = static_cast<const float*>(call.recv);
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < input.size(); ++i) {
    const double exact = input[i];
    error += (result[i] - exact) * (result[i] - exact);
    norm += exact * exact;
  }
  tally().measured(norm == 0 ? 0 : std::sqrt(error / norm));
}

// PMPI's count is an int.
bool can_be_measured(const Call& call) { return call.count <= std::int64_t{1} << 30; }

// `work`: null to wait for the end.
ferruleResult_t hand_over(const Call& call, Group& group, ferruleWork_t* work) {
  ferruleOptions_t wishes = FERRULE_OPTIONS_INIT;
  wishes.timeout_ns = options().timeout_ns;
  wishes.work = work;
  return ferruleAllReduce(source(call), call.recv, static_cast<std::size_t>(call.count), ferruleFloat32,
                          ferruleSum, &wishes, group.comm, nullptr);
}

int run(const Call& call, Group& group) {
  std::vector<float> input;
  if (is_to_be_measured(group) && can_be_measured(call)) {
    const auto* from = static_cast<const float*>(source(call));
    input.assign(from, from + call.count);
  }
  const std::uint64_t before = bytes_sent(group);
  const auto begin = Clock::now();
  if (hand_over(call, group, nullptr) != ferruleSuccess) return report_failure(call.comm, "MPI_Allreduce");
  tally().done(tensor_bytes(call), raw_bytes(call, group), bytes_sent(group) - before,
               std::chrono::duration<double>(Clock::now() - begin).count());
  ++group.calls;
  if (!input.empty()) measure(call, input);
  return MPI_SUCCESS;
}

}  // namespace

std::optional<int> all_reduce(const Call& call) {
  if (is_candidate(call)) {
    const auto group = make_group(call.comm);
    if (group->comm != nullptr) return run(call, *group);
  }
  return pass_on();
}

std::optional<int> start_all_reduce(const Call& call, MPI_Request* request) {
  if (request != nullptr && is_candidate(call)) {
    const auto group = find_group(call.comm);
    if (group != nullptr && group->comm != nullptr && group->may_complete_requests) {
      ferruleWork_t work = nullptr;
      if (hand_over(call, *group, &work) != ferruleSuccess)
        return report_failure(call.comm, "MPI_Iallreduce");
      ++group->calls;
      return complete_later({work, group, tensor_bytes(call), raw_bytes(call, *group)}, request);
    }
  }
  return pass_on();
}

}  // namespace ferrule::mpi
