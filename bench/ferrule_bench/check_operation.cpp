#include "bench/ferrule_bench/check_operation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "bench/ferrule_bench/check.hpp"
#include "bench/ferrule_bench/digest.hpp"
#include "bench/ferrule_bench/elements.hpp"
#include "bench/ferrule_bench/exchange.hpp"
#include "bench/ferrule_bench/oracle.hpp"
#include "ferrule/codec_spec.hpp"

namespace ferrule::bench {
namespace {

/// `count` elements of the result from `at`, which are those of rank `source` from `first` on; source -1: the
/// sum over all ranks.
struct Stretch {
  std::uint64_t at = 0;
  std::uint64_t count = 0;
  int source = 0;
  std::uint64_t first = 0;
};

/// What of the result a rank has got, and from whom.
std::vector<Stretch> stretches(const Case& what, int rank, int ranks, int root) {
  const std::uint64_t part = what.count / static_cast<std::uint64_t>(ranks);
  const std::uint64_t own = part * static_cast<std::uint64_t>(rank);
  std::vector<Stretch> all;
  switch (what.operation) {
    case Operation::all_reduce:
      break;
    case Operation::reduce_scatter:
      return {{own, part, -1, own}};
    case Operation::reduce:
      if (rank == root) all.push_back({0, what.count, -1, 0});
      return all;
    case Operation::broadcast:
      return {{0, what.count, root, 0}};
    case Operation::scatter:
      return {{own, part, root, own}};
    case Operation::sendrecv:
      return {{0, what.count, (rank + ranks - 1) % ranks, 0}};
    case Operation::all_gather:
    case Operation::gather:
    case Operation::alltoall:
      break;
  }
  if (what.operation == Operation::gather && rank != root) return all;
  for (int source = 0; source < ranks; ++source) {
    const std::uint64_t at = part * static_cast<std::uint64_t>(source);
    all.push_back({at, part, source, what.operation == Operation::alltoall ? own : at});
  }
  return all;
}

class OperationChecker {
 public:
  OperationChecker(const Case& what, const DataSpec& spec) : what_(what), spec_(spec) {}

  Status judge(const std::byte* result, const Stretch& stretch) {
    constexpr std::uint64_t kBlocks = 64;
    const std::uint64_t piece =
        std::max<std::uint64_t>(16384, what_.block * kBlocks) / what_.block * what_.block;
    for (std::uint64_t done = 0; done < stretch.count; done += piece) {
      const std::size_t count = std::min(piece, stretch.count - done);
      std::vector<double> values(count);
      load_elements(result + (stretch.at + done) * element_bytes(spec_.dtype), spec_.dtype, values);
      Expected expected = expected_of(stretch, done, count);
      auto bounds = bounds_of(stretch, expected);
      if (!bounds.ok()) return bounds.status();
      tally_.add(values, expected, *bounds);
    }
    return {};
  }
  const ErrorTally& tally() const { return tally_; }

 private:
  Expected expected_of(const Stretch& stretch, std::uint64_t done, std::size_t count) const {
    if (stretch.source < 0) {
      // Blocks of a part begin where it begins, not where the tensor's blocks do: one more block covers them.
      return expected_piece(spec_, what_.lossy ? 1 : what_.block, stretch.first + done, count);
    }
    Expected expected;
    expected.first = stretch.first + done;
    expected.values.resize(count);
    generate(spec_, stretch.source, expected.first, expected.values);
    return expected;
  }

  Result<std::vector<double>> bounds_of(const Stretch& stretch, const Expected& expected) const {
    if (!what_.lossy) {
      return stretch.source < 0 ? rounding_bounds(spec_, expected)
                                : std::vector<double>(expected.values.size(), 0.0);
    }
    auto codec = Codec::create(std::string(without_auto(what_.codec)));
    if (!codec.ok()) return codec.status();
    // Of the blocks that an element may be in, the largest magnitude; what encodes it at most twice is
    // bounded by the all-reduce's bound.
    std::vector<double> bounds(expected.values.size());
    const std::vector<double> magnitudes = magnitudes_of(stretch, expected);
    const ferruleResult_t result = ferruleAllReduceErrorBound(
        codec->handle(), algorithm(), stretch.source < 0 ? spec_.ranks : 2,
        static_cast<ferruleDataType_t>(spec_.dtype), static_cast<ferruleRedOp_t>(spec_.op), magnitudes.data(),
        bounds.size(), bounds.data());
    FERRULE_RETURN_IF_ERROR(detail::to_status(result));
    return bounds;
  }

  const char* algorithm() const {
    const char* chosen = codec_levels(what_.codec).size() > 1 ? "hierarchical" : "direct";
    return what_.algorithm == "auto" ? chosen : what_.algorithm.c_str();
  }

  std::vector<double> magnitudes_of(const Stretch& stretch, const Expected& expected) const {
    const std::size_t count = expected.values.size();
    std::vector<double> sums(count, 0.0);
    const int first_rank = stretch.source < 0 ? 0 : stretch.source;
    const int last_rank = stretch.source < 0 ? spec_.ranks - 1 : stretch.source;
    std::vector<double> values(count);
    for (int rank = first_rank; rank <= last_rank; ++rank) {
      generate(spec_, rank, expected.first, values);
      for (std::size_t begin = 0; begin < count; begin += what_.block) {
        const std::size_t end = std::min(begin + what_.block, count);
        double largest = 0;
        for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::fabs(values[i]));
        for (std::size_t i = begin; i < end; ++i) sums[i] += largest;
      }
    }
    return sums;
  }

  const Case& what_;
  const DataSpec& spec_;
  ErrorTally tally_;
};

Result<bool> are_identical(const Communicator& comm, const Case& what, const std::byte* result) {
  if (!replicates(what.operation)) return true;
  const auto own = static_cast<std::int64_t>(digest({result, what.bytes()}));
  auto smallest = combine(comm, std::vector{own}, ReduceOp::min);
  if (!smallest.ok()) return smallest.status();
  auto largest = combine(comm, std::vector{own}, ReduceOp::max);
  if (!largest.ok()) return largest.status();
  return smallest->front() == largest->front();
}

Result<Verdict> over_ranks(const Communicator& comm, const ErrorTally& tally, bool identical) {
  auto counts =
      combine(comm, std::vector{static_cast<std::int64_t>(tally.wrong), std::int64_t{identical ? 0 : 1}},
              ReduceOp::sum);
  if (!counts.ok()) return counts.status();
  const auto lasting = [](double error) {
    return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  };
  auto errors =
      combine(comm, std::vector{lasting(tally.relative_error()), lasting(tally.max_error)}, ReduceOp::max);
  if (!errors.ok()) return errors.status();
  Verdict verdict;
  verdict.wrong = std::max(static_cast<std::uint64_t>((*counts)[0]), tally.wrong);
  verdict.identical = (*counts)[1] == 0;
  verdict.rel_error = (*errors)[0];
  verdict.max_error = (*errors)[1];
  return verdict;
}

}  // namespace

Result<Verdict> check_operation(const Communicator& comm, const Options& options, Workspace& workspace,
                                CaseState& state, Place place) {
  const DataSpec spec = data_of(state.what, options, comm.size());
  OperationChecker checker(state.what, spec);
  bool identical = true;
  for (int i = 0; i < options.check_iters; ++i) {
    state.clear_residuals();
    workspace.spoil_result(state);
    workspace.prepare(state, place);
    FERRULE_RETURN_IF_ERROR(workspace.reduce_once(state, place));
    for (const Stretch& stretch : stretches(state.what, comm.rank(), comm.size(), options.root)) {
      FERRULE_RETURN_IF_ERROR(checker.judge(workspace.result(), stretch));
    }
    auto same = are_identical(comm, state.what, workspace.result());
    if (!same.ok()) return same.status();
    identical = identical && *same;
  }
  return over_ranks(comm, checker.tally(), identical);
}

}  // namespace ferrule::bench
