#include "bench/ferrule_bench/jitter.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <charconv>
#include <random>
#include <thread>

namespace ferrule::bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kMostNs = 10e9;
/// A sleeping thread comes back this much late.
constexpr std::chrono::microseconds kPolled{100};

struct Unit {
  std::string_view name;
  double ns;
};
constexpr Unit kUnits[] = {{"ns", 1}, {"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};

/// Nanoseconds; 0 if it is no duration.
double read_duration_ns(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return 0;
  const std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  for (const Unit& each : kUnits) {
    if (each.name == unit) return number * each.ns;
  }
  return 0;
}

}  // namespace

Result<Jitter> parse_jitter(std::string_view text) {
  const auto colon = text.find(':');
  Jitter jitter;
  jitter.text = text;
  const std::string_view rank = text.substr(0, colon);
  const auto [end, error] = std::from_chars(rank.data(), rank.data() + rank.size(), jitter.rank);
  const bool rank_ok = error == std::errc() && end == rank.data() + rank.size() && jitter.rank >= 0;
  const double ns = colon == std::string_view::npos ? 0 : read_duration_ns(text.substr(colon + 1));
  if (!rank_ok || !(ns >= 1 && ns <= kMostNs)) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("--jitter {}: expected RANK:DURATION, e.g. 2:500us, of at most 10s", text));
  }
  jitter.most = std::chrono::nanoseconds(static_cast<std::int64_t>(ns));
  return jitter;
}

std::chrono::nanoseconds lateness(const Options& options, int rank, int iteration) {
  if (!options.jitter || options.jitter->rank != rank) return {};
  std::seed_seq seed{options.seed & 0xffffffff, options.seed >> 32, static_cast<std::uint64_t>(iteration)};
  std::mt19937_64 engine(seed);
  // Of 53 bits: std::uniform_real_distribution may differ between libraries.
  const double share = static_cast<double>(engine() >> 11) / static_cast<double>(std::uint64_t{1} << 53);
  return std::chrono::nanoseconds(
      static_cast<std::int64_t>(share * static_cast<double>(options.jitter->most.count())));
}

void be_late(std::chrono::nanoseconds delay) {
  if (delay.count() <= 0) return;
  const auto until = Clock::now() + delay;
  if (delay > kPolled) std::this_thread::sleep_until(until - kPolled);
  while (Clock::now() < until) sched_yield();
}

}  // namespace ferrule::bench
