#include "plan/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace ferrule::plan {
namespace {

using Applies = Candidate::Applies;
using collectives::Collective;

constexpr std::int32_t kAnyWorld = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kAnyBytes = std::numeric_limits<std::size_t>::max();
// Slices under way at a time, however long the link: each holds scratch and messages.
constexpr double kMostSlices = 1024;

double log2_up(std::int32_t world) {
  return world <= 1 ? 0 : std::bit_width(static_cast<std::uint32_t>(world - 1));
}
double one_round(std::int32_t) { return 1; }
double two_rounds(std::int32_t) { return 2; }
// Worlds that are no power of two fold the rest in first and hand the result out last.
double doubling_rounds(std::int32_t world) {
  const bool power = std::has_single_bit(static_cast<std::uint32_t>(world));
  return power ? log2_up(world) : std::floor(std::log2(world)) + 2;
}
double half_ring_rounds(std::int32_t world) { return world - 1; }
double ring_rounds(std::int32_t world) { return 2.0 * (world - 1); }
// Reduce-scatter and all-gather inside, an exchange of two rounds between: of two levels.
double hierarchical_rounds(std::int32_t) { return 4; }
double tree_rounds(std::int32_t world) { return 2 * log2_up(world); }

// Lossy sums: only where a value is encoded at most twice, whatever the world. One-shot adds whole tensors at
// every rank, which the model does not see: small ones only. A ring sends what direct sends, in as many
// messages, and has to wait for each: no link makes it the faster one in this model.
constexpr Candidate kTable[] = {
    {"one_shot", Applies::any, 2, 32 << 10, one_round},
    {"one_shot", Applies::any, 8, 8 << 10, one_round},
    {"recursive_doubling", Applies::wide_exact, kAnyWorld, 256 << 10, doubling_rounds},
    {"direct", Applies::any, kAnyWorld, kAnyBytes, two_rounds},
    {"tree", Applies::wide_exact, kAnyWorld, kAnyBytes, tree_rounds},
    {"ring", Applies::when_named, kAnyWorld, kAnyBytes, ring_rounds},
    {"hierarchical", Applies::when_named, kAnyWorld, kAnyBytes, hierarchical_rounds},

    {"direct", Applies::any, kAnyWorld, kAnyBytes, one_round, Collective::reduce_scatter},
    {"ring", Applies::when_named, kAnyWorld, kAnyBytes, half_ring_rounds, Collective::reduce_scatter},
    {"hierarchical", Applies::when_named, kAnyWorld, kAnyBytes, two_rounds, Collective::reduce_scatter},
    {"direct", Applies::any, kAnyWorld, kAnyBytes, one_round, Collective::all_gather},
    {"ring", Applies::when_named, kAnyWorld, kAnyBytes, half_ring_rounds, Collective::all_gather},
    {"hierarchical", Applies::when_named, kAnyWorld, kAnyBytes, two_rounds, Collective::all_gather},
    {"tree", Applies::any, kAnyWorld, kAnyBytes, log2_up, Collective::broadcast},
    {"direct", Applies::any, kAnyWorld, kAnyBytes, two_rounds, Collective::broadcast},
    {"one_shot", Applies::any, kAnyWorld, 32 << 10, one_round, Collective::reduce},
    {"direct", Applies::any, kAnyWorld, kAnyBytes, two_rounds, Collective::reduce},
    {"direct", Applies::any, kAnyWorld, kAnyBytes, one_round, Collective::gather},
    {"direct", Applies::any, kAnyWorld, kAnyBytes, one_round, Collective::scatter},
    {"direct", Applies::any, kAnyWorld, kAnyBytes, one_round, Collective::all_to_all},
    {"dissemination", Applies::any, kAnyWorld, kAnyBytes, log2_up, Collective::barrier},
};

}  // namespace

std::span<const Candidate> selection_table() { return kTable; }

bool admits(const Candidate& candidate, const Situation& situation) {
  if (candidate.collective != situation.collective) return false;
  const bool narrow = situation.dtype == DType::f16 || situation.dtype == DType::bf16;
  const bool wide_exact = candidate.applies == Applies::wide_exact && situation.exact && !narrow;
  const bool applies = candidate.applies == Applies::any || wide_exact;
  return applies && situation.world <= candidate.max_world && situation.encoded_bytes <= candidate.max_bytes;
}

double rounds_of(const collectives::AlgorithmDesc& algorithm, std::int32_t world) {
  if (world == 1) return 0;
  for (const Candidate& candidate : kTable) {
    if (candidate.collective != algorithm.collective) continue;
    if (candidate.algorithm == algorithm.name) return candidate.rounds(world);
  }
  return 2;
}

Result<Choice> choose_algorithm(const Situation& situation, const LinkModel& link) {
  Choice best;
  for (const Candidate& candidate : kTable) {
    if (!admits(candidate, situation)) continue;
    const collectives::AlgorithmDesc* algorithm =
        collectives::find_algorithm(candidate.algorithm, candidate.collective);
    if (algorithm == nullptr) {
      return Status(
          ErrorCode::internal,
          fmt::format("the selection table names '{}', which is not registered", candidate.algorithm));
    }
    const double seconds = predict_seconds(shape_of(*algorithm, situation.world),
                                           rounds_of(*algorithm, situation.world), situation, link);
    if (best.algorithm == nullptr || seconds < best.seconds) best = {algorithm, seconds};
  }
  if (best.algorithm != nullptr) return best;
  return Status(ErrorCode::internal, "the selection table has no row for this collective");
}

std::uint32_t most_encodes(std::int32_t world, DType dtype, bool exact) {
  std::uint32_t most = 0;
  for (const Candidate& candidate : kTable) {
    if (candidate.collective != Collective::all_reduce) continue;
    const auto* algorithm = collectives::find_algorithm(candidate.algorithm);
    Situation situation;
    situation.world = world;
    situation.dtype = dtype;
    situation.exact = exact;
    if (algorithm == nullptr || !admits(candidate, situation)) continue;
    most = std::max(most, algorithm->encodes(world));
  }
  return most;
}

std::uint32_t slices_to_fill(const Shape& shape, double rounds, std::size_t slot_bytes, const LinkModel& link,
                             std::uint32_t at_least) {
  const double slice_s = shape.messages * static_cast<double>(slot_bytes) * link.byte_s;
  if (slice_s <= 0) return at_least;
  const double needed = std::min(kMostSlices, std::ceil(rounds * link.latency_s / slice_s));
  return at_least + static_cast<std::uint32_t>(needed);
}

}  // namespace ferrule::plan
