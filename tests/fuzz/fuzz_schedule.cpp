// Any schedules at all, and right ones with a few steps changed. The verifier must take them all; what it
// accepts must be right on numbers, and lowered to programs (with and without the raw codec, in place or not)
// must stay right.
#include <algorithm>
#include <cmath>
#include <vector>

#include "collectives/verify.hpp"
#include "fuzz/input.hpp"
#include "fuzz/program_runner.hpp"
#include "fuzz/require.hpp"

namespace {

using namespace ferrule;
using namespace ferrule::fuzz;
using collectives::Operation;
using collectives::Schedule;
using collectives::Step;
using collectives::test::Numbers;
using Schedules = std::vector<Schedule>;

constexpr std::uint32_t kMostLowered = 65536;  // lower() believes these numbers; the verifier does not

std::uint32_t any_slot(Input& input) {
  const std::uint8_t byte = input.take<std::uint8_t>();
  if (byte == 255) return collectives::kOwnInput;
  if (byte == 254) return collectives::kSum;
  return byte == 253 ? input.take<std::uint32_t>() : byte % 16;
}

Step any_step(Input& input) {
  Step step;
  const std::uint8_t operation = input.take<std::uint8_t>();
  step.operation = static_cast<Operation>(operation < 240 ? operation % 6 : operation);
  const std::uint8_t error = input.take<std::uint8_t>();
  step.error = static_cast<collectives::ErrorKept>(error < 240 ? error % 3 : error);
  step.level = static_cast<std::uint8_t>(input.pick(8) == 0 ? input.pick(4) : 0);
  step.chunk = input.take<std::uint8_t>() % 5;
  step.slot = any_slot(input);
  step.from = any_slot(input);
  step.peer = static_cast<std::int8_t>(input.take<std::uint8_t>() % 6) - 1;
  step.noise_rank = static_cast<std::int8_t>(input.take<std::uint8_t>()) % 8;
  return step;
}

Schedules any_schedules(Input& input) {
  Schedules schedules(input.pick(5));
  for (std::size_t rank = 0; rank < schedules.size(); ++rank) {
    Schedule& schedule = schedules[rank];
    schedule.rank = static_cast<std::int32_t>(rank);
    schedule.world = static_cast<std::int32_t>(schedules.size());
    if (input.pick(32) == 0) schedule.world = input.take<std::int32_t>();
    schedule.chunks = input.pick(32) == 0 ? input.take<std::uint32_t>() : 1 + input.pick(3);
    schedule.slots = input.pick(32) == 0 ? input.take<std::uint32_t>() : input.pick(17);
    schedule.steps.resize(input.pick(24));
    for (Step& step : schedule.steps) step = any_step(input);
  }
  return schedules;
}

void change(Input& input, Schedule& schedule) {
  if (schedule.steps.empty()) return schedule.steps.push_back(any_step(input));
  const std::size_t index = input.pick(static_cast<std::uint32_t>(schedule.steps.size()));
  const auto at = schedule.steps.begin() + static_cast<std::ptrdiff_t>(index);
  const std::size_t other = input.pick(static_cast<std::uint32_t>(schedule.steps.size()));
  switch (input.pick(10)) {
    case 0:
      schedule.steps.erase(at);
      return;
    case 1:
      schedule.steps.insert(at, any_step(input));
      return;
    case 2:
      return std::swap(*at, schedule.steps[other]);
    case 3:
      at->slot = schedule.steps[other].slot;
      return;
    case 4:
      at->chunk = schedule.steps[other].chunk;
      return;
    case 5:
      at->error = schedule.steps[other].error;
      return;
    case 6:
      at->noise_rank = static_cast<std::int32_t>(input.pick(8));
      return;
    case 7:
      schedule.slots += input.pick(3);
      return;
    case 8:
      at->from = any_slot(input);
      return;
    default:
      *at = any_step(input);
  }
}

// Flat, or nodes of one to three ranks.
collectives::Topology any_topology(Input& input) {
  if (input.flag()) return 1 + static_cast<std::int32_t>(input.pick(5));
  std::vector<std::int32_t> sizes(1 + input.pick(3));
  for (std::int32_t& size : sizes) size = 1 + static_cast<std::int32_t>(input.pick(3));
  return collectives::Topology::of_sizes(sizes);
}

Schedules changed_schedules(Input& input) {
  const auto all = collectives::algorithms();
  const auto& algorithm = all[input.pick(static_cast<std::uint32_t>(all.size()))];
  Schedules schedules = collectives::build_all(algorithm, any_topology(input));
  for (std::uint32_t left = input.pick(5); left > 0; --left) {
    change(input, schedules[input.pick(static_cast<std::uint32_t>(schedules.size()))]);
  }
  return schedules;
}

std::vector<Numbers> numbers_for(const Schedules& schedules) {
  std::vector<Numbers> ranks(schedules.size());
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    // Powers of two of their own a rank, and a fraction for the lossy codec to lose: no two sums are alike.
    for (std::uint32_t chunk = 0; chunk < schedules[0].chunks; ++chunk) {
      ranks[rank].input.push_back(std::ldexp(1.0, static_cast<int>(rank) * 4) + 0.0625 * (chunk + 1) + 0.25);
    }
    ranks[rank].residual.assign(schedules[0].chunks, 0.1875);
  }
  return ranks;
}

double total(const std::vector<Numbers>& ranks, std::vector<double> Numbers::*field, std::uint32_t chunk) {
  double sum = 0;
  for (const Numbers& rank : ranks) sum += (rank.*field)[chunk];
  return sum;
}

bool near(double a, double b) { return std::fabs(a - b) <= 1e-9 * (1 + std::fabs(a)); }

// `scale`: what the outputs are to be multiplied by (the world, for an average).
void check_result(const std::vector<Numbers>& before, const std::vector<Numbers>& after, bool exact,
                  double scale, const std::string& text) {
  for (std::uint32_t chunk = 0; chunk < before[0].input.size(); ++chunk) {
    for (const Numbers& rank : after) FERRULE_REQUIRE_OR(rank.output[chunk] == after[0].output[chunk], text);
    double expected = total(before, &Numbers::input, chunk);
    // An exact codec leaves residuals as they are in the library; here it delivers them.
    if (!exact) {
      expected += total(before, &Numbers::residual, chunk) - total(after, &Numbers::residual, chunk);
    }
    FERRULE_REQUIRE_OR(near(after[0].output[chunk] * scale, expected), text);
  }
}

double whole(double value) { return std::nearbyint(value); }

std::string text_of(const Schedules& schedules) {
  std::string text = "\n";
  for (const Schedule& schedule : schedules) text += to_string(schedule);
  return text;
}

using Levels = std::span<const plan::LevelCodec>;

// Codecs by level: one lossy or raw one for all; raw inside a node and lossy between nodes; two lossy ones.
constexpr plan::LevelCodec kLossy[] = {{0, false}, {0, false}, {0, false}, {0, false}};
constexpr plan::LevelCodec kRaw[] = {{0, true}, {0, true}, {0, true}, {0, true}};
constexpr plan::LevelCodec kRawInside[] = {{0, true}, {1, false}, {1, false}, {1, false}};
constexpr plan::LevelCodec kTwoLossy[] = {{0, false}, {1, false}, {0, false}, {1, false}};
constexpr Levels kLevels[] = {kLossy, kRaw, kRawInside, kTwoLossy};

bool all_identity(Levels levels) {
  return std::all_of(levels.begin(), levels.end(), [](const auto& level) { return level.identity; });
}

void check_programs(const Schedules& schedules, Levels levels, const std::string& text) {
  std::vector<plan::Program> programs;
  for (const Schedule& schedule : schedules) {
    auto program = plan::lower(schedule, levels);
    FERRULE_REQUIRE_OR(program.ok(), program.status().text() + text);
    programs.push_back(std::move(*program));
  }
  for (const bool in_place : {false, true}) {
    for (const bool average : {false, true}) {
      const std::vector<Numbers> before = numbers_for(schedules);
      std::vector<Numbers> after = before;
      ProgramRunner runner(programs, {whole, levels, average, in_place});
      FERRULE_REQUIRE_OR(runner.run(after), text);
      const double scale = average ? static_cast<double>(schedules.size()) : 1.0;
      check_result(before, after, all_identity(levels), scale, text);
    }
  }
}

// Are the levels those that the schedules were made for? (A change may have invented one.)
bool fits(const Schedules& schedules, std::size_t levels) {
  for (const Schedule& schedule : schedules) {
    for (const Step& step : schedule.steps) {
      if (step.level >= levels) return false;
    }
  }
  return true;
}

void check_accepted(const Schedules& schedules) {
  const std::string text = text_of(schedules);
  const std::vector<Numbers> before = numbers_for(schedules);
  std::vector<Numbers> after = before;
  FERRULE_REQUIRE_OR(collectives::test::Interpreter(schedules, whole).run(after), text);
  check_result(before, after, false, 1.0, text);
  for (const Levels levels : kLevels) {
    if (fits(schedules, levels.size())) check_programs(schedules, levels, text);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  const Schedules schedules = input.flag() ? changed_schedules(input) : any_schedules(input);
  const auto report = collectives::verify(schedules);
  if (report.ok()) {
    check_accepted(schedules);
    return 0;
  }
  FERRULE_REQUIRE(!report.status().text().empty());
  for (const Schedule& schedule : schedules) {
    if (std::max(schedule.chunks, schedule.slots) > kMostLowered) continue;
    for (const Levels levels : kLevels) (void)plan::lower(schedule, levels);
  }
  return 0;
}
