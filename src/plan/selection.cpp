#include "plan/selection.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <string_view>

namespace ferrule::plan {
namespace {

enum class Applies : std::uint8_t {
  any,
  wide_exact,  // raw sums that lose nothing between steps: f32, f64 and integers, not f16 and bf16
};

struct Row {
  std::int32_t max_world;
  std::size_t max_bytes;
  Applies applies;
  std::string_view algorithm;
};

constexpr std::int32_t kAnyWorld = std::numeric_limits<std::int32_t>::max();
constexpr std::size_t kAnyBytes = std::numeric_limits<std::size_t>::max();

// Small messages: latency counts. One exchange is best for 2 ranks, few rounds for more. Large ones: direct
// moves the fewest bytes and encodes twice whatever the world; beyond 64 ranks its messages grow too small
// for raw data, where re-encoding is free and a ring is as exact.
constexpr Row kTable[] = {
    {2, 32 << 10, Applies::any, "one_shot"},
    {kAnyWorld, 16 << 10, Applies::wide_exact, "recursive_doubling"},
    {8, 4 << 10, Applies::any, "one_shot"},
    {64, kAnyBytes, Applies::any, "direct"},
    {kAnyWorld, kAnyBytes, Applies::wide_exact, "ring"},
    {kAnyWorld, kAnyBytes, Applies::any, "direct"},
};

bool fits(const Row& row, const Situation& situation) {
  const bool narrow = situation.dtype == DType::f16 || situation.dtype == DType::bf16;
  const bool applies = row.applies == Applies::any || (situation.exact && !narrow);
  return situation.world <= row.max_world && situation.encoded_bytes <= row.max_bytes && applies;
}

}  // namespace

Result<const collectives::AlgorithmDesc*> choose_algorithm(const Situation& situation) {
  for (const Row& row : kTable) {
    if (!fits(row, situation)) continue;
    const collectives::AlgorithmDesc* algorithm = collectives::find_algorithm(row.algorithm);
    if (algorithm != nullptr) return algorithm;
    return Status(ErrorCode::internal,
                  fmt::format("the selection table names '{}', which is not registered", row.algorithm));
  }
  return Status(ErrorCode::internal, "the selection table has no row for this collective");
}

std::uint32_t most_encodes(std::int32_t world, DType dtype, bool exact) {
  std::uint32_t most = 0;
  for (const Row& row : kTable) {
    const auto* algorithm = collectives::find_algorithm(row.algorithm);
    if (algorithm == nullptr || !fits(row, {world, 0, dtype, exact})) continue;
    most = std::max(most, algorithm->encodes(world));
  }
  return most;
}

}  // namespace ferrule::plan
