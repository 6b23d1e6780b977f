#include "bench/ferrule_bench/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <vector>

namespace ferrule::bench {
namespace {

double percentile(const std::vector<double>& sorted, double fraction) {
  const auto rank = static_cast<std::size_t>(std::ceil(fraction * static_cast<double>(sorted.size())));
  return sorted[std::clamp<std::size_t>(rank, 1, sorted.size()) - 1];
}

}  // namespace

Summary summarise(std::span<const double> samples) {
  if (samples.empty()) return {};
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const double sum = std::accumulate(sorted.begin(), sorted.end(), 0.0);
  return {.mean = sum / static_cast<double>(sorted.size()),
          .min = sorted.front(),
          .p50 = percentile(sorted, 0.50),
          .p95 = percentile(sorted, 0.95),
          .p99 = percentile(sorted, 0.99),
          .max = sorted.back()};
}

Slowest most_often(std::span<const std::int64_t> slowest_ranks) {
  std::map<std::int64_t, std::size_t> times;
  for (const std::int64_t rank : slowest_ranks) ++times[rank];
  const auto most = std::max_element(times.begin(), times.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == times.end()) return {};
  const double share = static_cast<double>(most->second) / static_cast<double>(slowest_ranks.size());
  return {static_cast<int>(most->first), 100 * share};
}

double algbw_gbps(std::uint64_t bytes, double time_us) {
  return time_us > 0 ? static_cast<double>(bytes) / 1e3 / time_us : 0;
}

double bus_factor(int ranks) { return ranks > 1 ? 2.0 * (ranks - 1) / ranks : 0; }

}  // namespace ferrule::bench
