// What a series of times says, and bandwidths as nccl-tests defines them.
#pragma once

#include <cstdint>
#include <span>

namespace ferrule::bench {

/// In the unit of the samples. Percentiles are nearest-rank: always one of the samples, never between two.
struct Summary {
  double mean = 0;
  double min = 0;
  double p50 = 0;
  double p95 = 0;
  double p99 = 0;
  double max = 0;
};

/// All zero for no samples.
Summary summarise(std::span<const double> samples);

/// The rank that was the slowest most often.
struct Slowest {
  int rank = 0;
  double percent = 0;  ///< of the iterations
};

/// From the slowest rank of each iteration; of equals the lowest. {0, 0} for no iterations.
Slowest most_often(std::span<const std::int64_t> slowest_ranks);

/// Uncompressed bytes over time, in 10^9 bytes a second; 0 for no time.
double algbw_gbps(std::uint64_t bytes, double time_us);
/// 2 (n-1) / n: what a bandwidth-optimal raw all-reduce moves through each rank's link, in units of the
/// message. 0 for one rank, which has no link to use.
double bus_factor(int ranks);

}  // namespace ferrule::bench
