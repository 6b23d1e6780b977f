#include "bench/ferrule_bench/check.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "bench/ferrule_bench/digest.hpp"
#include "bench/ferrule_bench/elements.hpp"
#include "bench/ferrule_bench/exchange.hpp"
#include "bench/ferrule_bench/oracle.hpp"
#include "ferrule/codec_spec.hpp"

namespace ferrule::bench {
namespace {

/// What residuals add to the sum and to the bounds: over all ranks, one entry an element. Empty when they are
/// zero.
struct Carried {
  std::vector<double> sums;
  std::vector<double> block_magnitudes;
};

Result<Carried> carried_over(const Communicator& comm, const CaseState& state) {
  const auto values = state.residuals.front().values();
  Carried carried{{values.begin(), values.end()}, std::vector<double>(values.size())};
  for (std::size_t begin = 0; begin < values.size(); begin += state.what.block) {
    const std::size_t end = std::min(begin + state.what.block, values.size());
    double largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max<double>(largest, std::fabs(values[i]));
    std::fill(carried.block_magnitudes.begin() + begin, carried.block_magnitudes.begin() + end, largest);
  }
  auto sums = combine(comm, std::move(carried.sums), ReduceOp::sum);
  if (!sums.ok()) return sums.status();
  auto magnitudes = combine(comm, std::move(carried.block_magnitudes), ReduceOp::sum);
  if (!magnitudes.ok()) return magnitudes.status();
  return Carried{std::move(*sums), std::move(*magnitudes)};
}

/// Adds what the residuals held to what was to be expected of the inputs alone.
void add_carried(const Carried& carried, double scale, Expected& expected) {
  if (carried.sums.empty()) return;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    expected.values[i] += scale * carried.sums[expected.first + i];
    expected.block_magnitudes[i] += carried.block_magnitudes[expected.first + i];
  }
}

class Checker {
 public:
  Checker(const Communicator& comm, const Case& what, const DataSpec& spec)
      : comm_(comm),
        what_(what),
        spec_(spec),
        codec_(what.lossy ? create(std::string(without_auto(what.codec))) : no_codec()) {}

  Status judge(const std::byte* result, const Carried& carried);
  Result<Verdict> verdict() const;

  void keep_means() { means_.assign(what_.count, 0.0); }

 private:
  static Result<Codec> create(const std::string& spec) { return Codec::create(spec); }
  static Result<Codec> no_codec() { return Status(ErrorCode::internal, "an exact case has no codec"); }

  Result<std::vector<double>> bounds(const Expected& expected) const;
  Status judge_piece(const std::byte* result, const Carried& carried, std::uint64_t first, std::size_t count);
  Result<bool> identical(const std::byte* result) const;
  double error_of_mean() const;

  /// Elements judged at a time: whole blocks, and small enough for the cache.
  std::size_t piece() const { return std::max<std::size_t>(1, 16384 / what_.block) * what_.block; }

  const Communicator& comm_;
  const Case& what_;
  const DataSpec& spec_;
  Result<Codec> codec_;
  ErrorTally tally_;
  ErrorTally inputs_only_;  ///< against the sum of the inputs, whatever the residuals held
  std::vector<double> means_;
  int judged_ = 0;
  bool identical_ = true;
};

Result<std::vector<double>> Checker::bounds(const Expected& expected) const {
  std::vector<double> bounds = rounding_bounds(spec_, expected);
  if (!what_.lossy) return bounds;
  std::vector<double> lossy(bounds.size());
  // For lossy codecs `auto` takes direct, or for small tensors one_shot, which encodes once less: direct's
  // bound holds for both. For a list of codecs it takes hierarchical.
  const char* chosen = codec_levels(what_.codec).size() > 1 ? "hierarchical" : "direct";
  const char* algorithm = what_.algorithm == "auto" ? chosen : what_.algorithm.c_str();
  const ferruleResult_t result = ferruleAllReduceErrorBound(
      codec_->handle(), algorithm, spec_.ranks, static_cast<ferruleDataType_t>(spec_.dtype),
      static_cast<ferruleRedOp_t>(spec_.op), expected.block_magnitudes.data(), lossy.size(), lossy.data());
  FERRULE_RETURN_IF_ERROR(detail::to_status(result));
  return lossy;
}

Status Checker::judge_piece(const std::byte* result, const Carried& carried, std::uint64_t first,
                            std::size_t count) {
  std::vector<double> values(count);
  load_elements(result + first * element_bytes(spec_.dtype), spec_.dtype, values);
  Expected expected = expected_piece(spec_, what_.block, first, count);
  const auto no_bounds = std::vector<double>(count, std::numeric_limits<double>::infinity());
  inputs_only_.add(values, expected, no_bounds);
  add_carried(carried, spec_.op == ReduceOp::avg ? 1.0 / spec_.ranks : 1.0, expected);
  auto allowed = bounds(expected);
  if (!allowed.ok()) return allowed.status();
  tally_.add(values, expected, *allowed);
  for (std::size_t i = 0; !means_.empty() && i < count; ++i) means_[first + i] += values[i];
  return {};
}

Status Checker::judge(const std::byte* result, const Carried& carried) {
  if (what_.lossy && !codec_.ok()) return codec_.status();
  for (std::uint64_t first = 0; first < what_.count; first += piece()) {
    const std::size_t count = std::min<std::size_t>(piece(), what_.count - first);
    FERRULE_RETURN_IF_ERROR(judge_piece(result, carried, first, count));
  }
  auto same = identical(result);
  if (!same.ok()) return same.status();
  identical_ = identical_ && *same;
  ++judged_;
  return {};
}

Result<bool> Checker::identical(const std::byte* result) const {
  const auto own = static_cast<std::int64_t>(digest({result, what_.bytes()}));
  auto smallest = combine(comm_, std::vector{own}, ReduceOp::min);
  if (!smallest.ok()) return smallest.status();
  auto largest = combine(comm_, std::vector{own}, ReduceOp::max);
  if (!largest.ok()) return largest.status();
  return smallest->front() == own && largest->front() == own;
}

double Checker::error_of_mean() const {
  ErrorTally tally;
  for (std::uint64_t first = 0; first < what_.count; first += piece()) {
    const std::size_t count = std::min<std::size_t>(piece(), what_.count - first);
    std::vector<double> mean(means_.begin() + first, means_.begin() + first + count);
    for (double& value : mean) value /= judged_;
    tally.add(mean, expected_piece(spec_, what_.block, first, count), std::vector<double>(count));
  }
  return tally.relative_error();
}

Result<Verdict> Checker::verdict() const {
  // A NaN would be lost in a maximum, an infinity is not.
  const auto lasting = [](double error) {
    return std::isnan(error) ? std::numeric_limits<double>::infinity() : error;
  };
  auto counts =
      combine(comm_, std::vector<std::int64_t>{static_cast<std::int64_t>(tally_.wrong), identical_ ? 0 : 1},
              ReduceOp::sum);
  if (!counts.ok()) return counts.status();
  const double of_mean = means_.empty() ? 0 : error_of_mean();
  auto errors = combine(comm_,
                        std::vector<double>{lasting(inputs_only_.relative_error()),
                                            lasting(inputs_only_.max_error), lasting(of_mean)},
                        ReduceOp::max);
  if (!errors.ok()) return errors.status();
  Verdict verdict;
  // A rank never reports fewer wrong elements than it has seen itself, whatever came back from the others.
  verdict.wrong = std::max(static_cast<std::uint64_t>((*counts)[0]), tally_.wrong);
  verdict.identical = (*counts)[1] == 0 && identical_;
  verdict.rel_error = (*errors)[0];
  verdict.max_error = (*errors)[1];
  if (!means_.empty()) verdict.rel_error_of_mean = (*errors)[2];
  return verdict;
}

}  // namespace

DataSpec data_of(const Case& what, const Options& options, int ranks) {
  return {.dtype = what.dtype, .op = what.op, .kind = options.data, .seed = options.seed, .ranks = ranks};
}

Result<Verdict> check(const Communicator& comm, const Options& options, Workspace& workspace,
                      CaseState& state, Place place) {
  const DataSpec spec = data_of(state.what, options, comm.size());
  Checker checker(comm, state.what, spec);
  state.clear_residuals();
  if (options.check_iters > 1 && state.what.error_feedback) checker.keep_means();
  for (int i = 0; i < options.check_iters; ++i) {
    Carried carried;
    if (i > 0 && state.what.error_feedback) {
      auto residuals = carried_over(comm, state);
      if (!residuals.ok()) return residuals.status();
      carried = std::move(*residuals);
    }
    workspace.spoil_result(state);
    workspace.prepare(state, place);
    FERRULE_RETURN_IF_ERROR(workspace.reduce_once(state, place));
    FERRULE_RETURN_IF_ERROR(checker.judge(workspace.result(), carried));
  }
  return checker.verdict();
}

}  // namespace ferrule::bench
