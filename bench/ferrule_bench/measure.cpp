#include "bench/ferrule_bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "bench/ferrule_bench/exchange.hpp"
#include "bench/ferrule_bench/jitter.hpp"

namespace ferrule::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// What this rank has seen of one case.
struct OwnTiming {
  std::vector<double> samples_us;
  std::vector<double> busy_us;  ///< of these: not waiting for the wire
  double total_ns = 0;
  double encode_ns = 0;
  double wait_ns = 0;
  double decode_ns = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t all_reduces = 0;
};

/// How one iteration is done, the same for all cases of a turn.
struct Turn {
  Place place = Place::out_of_place;
  int agg_iters = 1;
  std::chrono::nanoseconds late{0};  ///< this rank comes so late
};

Status time_iteration(const Communicator& comm, Workspace& workspace, CaseState& state, OwnTiming& own,
                      const Turn& turn) {
  workspace.prepare(state, turn.place);
  FERRULE_RETURN_IF_ERROR(barrier(comm));
  const ferruleStats_t before = comm.stats();
  const auto start = Clock::now();
  be_late(turn.late);
  FERRULE_RETURN_IF_ERROR(workspace.iterate(state, turn.place));
  const double elapsed_ns = std::chrono::duration<double, std::nano>(Clock::now() - start).count();
  const ferruleStats_t after = comm.stats();
  const auto wait_ns = static_cast<double>(after.wait_ns - before.wait_ns);
  own.samples_us.push_back(elapsed_ns / 1e3 / turn.agg_iters);
  own.busy_us.push_back(elapsed_ns / 1e3 - wait_ns / 1e3);
  own.total_ns += elapsed_ns;
  own.encode_ns += static_cast<double>(after.encode_ns - before.encode_ns);
  own.wait_ns += wait_ns;
  own.decode_ns += static_cast<double>(after.decode_ns - before.decode_ns);
  own.bytes_sent += after.bytes_sent - before.bytes_sent;
  own.all_reduces += static_cast<std::uint64_t>(turn.agg_iters);
  return {};
}

/// Each iteration's time as -a wants it.
Result<std::vector<double>> shown_series(const Communicator& comm, Average average, std::vector<double> own) {
  switch (average) {
    case Average::min:
      return combine(comm, std::move(own), ReduceOp::min);
    case Average::max:
      return combine(comm, std::move(own), ReduceOp::max);
    case Average::mean:
      return combine(comm, std::move(own), ReduceOp::avg);
    case Average::rank0:
      break;
  }
  if (comm.rank() != 0) std::fill(own.begin(), own.end(), 0.0);
  return combine(comm, std::move(own), ReduceOp::sum);
}

/// The rank that others waited for in each iteration is the one that itself waited least. (All of them end at
/// about the same time, whoever was late.)
Result<Slowest> find_slowest(const Communicator& comm, const std::vector<double>& busy_us) {
  auto most = combine(comm, busy_us, ReduceOp::max);
  if (!most.ok()) return most.status();
  std::vector<std::int64_t> ranks(busy_us.size());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    ranks[i] = busy_us[i] == (*most)[i] ? comm.rank() : comm.size();
  auto slowest = combine(comm, std::move(ranks), ReduceOp::min);
  if (!slowest.ok()) return slowest.status();
  return most_often(*slowest);
}

Result<Timing> over_ranks(const Communicator& comm, const OwnTiming& own, Average average) {
  Timing timing;
  auto slowest = combine(comm, own.samples_us, ReduceOp::max);
  if (!slowest.ok()) return slowest.status();
  timing.samples_us = std::move(*slowest);
  auto shown = shown_series(comm, average, own.samples_us);
  if (!shown.ok()) return shown.status();
  timing.shown_us = summarise(*shown).mean;
  auto shares = combine(comm,
                        std::vector<double>{own.encode_ns / own.total_ns, own.wait_ns / own.total_ns,
                                            own.decode_ns / own.total_ns},
                        ReduceOp::avg);
  if (!shares.ok()) return shares.status();
  timing.encode_percent = 100 * (*shares)[0];
  timing.wait_percent = 100 * (*shares)[1];
  timing.decode_percent = 100 * (*shares)[2];
  auto wire =
      combine(comm, std::vector{static_cast<std::int64_t>(own.bytes_sent / own.all_reduces)}, ReduceOp::max);
  if (!wire.ok()) return wire.status();
  timing.wire_bytes = static_cast<std::uint64_t>(wire->front());
  auto most_often_slowest = find_slowest(comm, own.busy_us);
  if (!most_often_slowest.ok()) return most_often_slowest.status();
  timing.slowest = *most_often_slowest;
  return timing;
}

Status warm_up(const Options& options, Workspace& workspace, std::span<CaseState> cases, Place place) {
  for (int i = 0; i < options.warmup_iters; ++i) {
    for (CaseState& state : cases) {
      workspace.prepare(state, place);
      FERRULE_RETURN_IF_ERROR(workspace.iterate(state, place));
    }
  }
  return {};
}

}  // namespace

Result<std::vector<Timing>> measure(const Communicator& comm, const Options& options, Workspace& workspace,
                                    std::span<CaseState> cases, Place place) {
  FERRULE_RETURN_IF_ERROR(warm_up(options, workspace, cases, place));
  std::vector<OwnTiming> own(cases.size());
  for (int i = 0; i < options.iters; ++i) {
    const Turn turn{place, options.agg_iters, lateness(options, comm.rank(), i)};
    for (std::size_t c = 0; c < cases.size(); ++c)
      FERRULE_RETURN_IF_ERROR(time_iteration(comm, workspace, cases[c], own[c], turn));
  }
  std::vector<Timing> timings;
  for (const OwnTiming& of_case : own) {
    auto timing = over_ranks(comm, of_case, options.average);
    if (!timing.ok()) return timing.status();
    timings.push_back(std::move(*timing));
  }
  return timings;
}

Result<std::uint64_t> raw_wire_bytes(const Communicator& comm, Workspace& workspace, const Case& what) {
  if (what.algorithm == "auto" && what.operation == Operation::all_reduce) {
    const double n = comm.size();
    return static_cast<std::uint64_t>(std::llround(2 * (n - 1) / n * static_cast<double>(what.bytes())));
  }
  CaseState raw;
  raw.what = what;
  raw.what.codec = "none";
  FERRULE_RETURN_IF_ERROR(barrier(comm));
  // Twice: the first use of a plan also sends what ranks need to agree on it.
  FERRULE_RETURN_IF_ERROR(workspace.reduce_once(raw, Place::out_of_place));
  FERRULE_RETURN_IF_ERROR(barrier(comm));
  const std::uint64_t before = comm.stats().bytes_sent;
  FERRULE_RETURN_IF_ERROR(workspace.reduce_once(raw, Place::out_of_place));
  const auto sent = static_cast<std::int64_t>(comm.stats().bytes_sent - before);
  auto largest = combine(comm, std::vector{sent}, ReduceOp::max);
  if (!largest.ok()) return largest.status();
  return static_cast<std::uint64_t>(largest->front());
}

}  // namespace ferrule::bench
