// What was measured of one size, codec and algorithm. Made by the runner, read by table and JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/ferrule_bench/operation.hpp"
#include "bench/ferrule_bench/statistics.hpp"
#include "bench/ferrule_bench/table.hpp"
#include "ferrule/types.hpp"

namespace ferrule::bench {

/// One thing to measure.
struct Case {
  Operation operation = Operation::all_reduce;
  std::string codec;
  std::string algorithm;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::uint64_t count = 0;      ///< elements
  bool lossy = false;           ///< for this dtype and operation
  std::size_t block = 1;        ///< elements of a codec block
  bool error_feedback = false;  ///< never for exact codecs

  std::uint64_t bytes() const { return count * element_bytes(dtype); }
};

/// Timing of one place. Times are of one all-reduce (an iteration's over agg_iters), in microseconds.
struct Timing {
  std::vector<double> samples_us;  ///< one an iteration: the slowest rank's
  double shown_us = 0;             ///< mean over iterations of what -a chose; bandwidths are made of this
  std::uint64_t wire_bytes = 0;    ///< that one rank sent for one all-reduce, the largest over ranks
  double encode_percent = 0;       ///< of the time, mean over ranks
  double wait_percent = 0;
  double decode_percent = 0;
  Slowest slowest = {};
};

/// Result of the checks of one place; over all ranks.
struct Verdict {
  std::uint64_t wrong = 0;
  double rel_error = 0;
  double max_error = 0;
  bool identical = true;
  /// With error feedback and several checks: the error of the mean of all results, which is what training
  /// sees.
  std::optional<double> rel_error_of_mean = std::nullopt;
};

struct CaseResult {
  Case what;
  int ranks = 1;
  std::string transport;
  std::string algorithm_ran;  ///< what "auto" became
  std::string codec_ran;      ///< canonical; "none" where compression was left off
  Timing out_of_place;
  Timing in_place;
  std::optional<Verdict> out_of_place_verdict;  ///< empty where nothing was checked
  std::optional<Verdict> in_place_verdict;
  std::uint64_t raw_wire_bytes = 0;  ///< what the same algorithm sends of raw data

  double compression() const;
  bool passed() const;
  double busbw_gbps(const Timing& timing) const;
  /// Of both places together; empty where nothing was checked.
  std::optional<Verdict> verdict() const;
};

Row table_row_of(const CaseResult& result);

}  // namespace ferrule::bench
