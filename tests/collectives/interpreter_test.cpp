// The schedules on numbers: exact sums with an exact codec; identity and the ledger with a lossy one.
#include "collectives/interpreter.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "collectives/topologies.hpp"
#include "collectives/verify.hpp"

namespace ferrule::collectives {
namespace {

using test::Interpreter;
using test::Numbers;

// Multiples of 2^-10 below 2^10: sums and rounding errors of them are exact in a double.
std::vector<Numbers> random_numbers(std::int32_t world, std::uint32_t chunks, std::mt19937& random) {
  std::uniform_int_distribution<int> values(-1 << 20, 1 << 20);
  std::vector<Numbers> ranks(static_cast<std::size_t>(world));
  for (Numbers& rank : ranks) {
    for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) rank.input.push_back(values(random) / 1024.0);
    rank.residual.assign(chunks, 0.0);
  }
  return ranks;
}

std::vector<Topology> worlds_and_topologies() {
  std::vector<Topology> all = test::topologies();
  for (std::int32_t world = 1; world <= 16; ++world) all.emplace_back(world);
  return all;
}

double total(const std::vector<Numbers>& ranks, std::vector<double> Numbers::*field, std::uint32_t chunk) {
  double sum = 0;
  for (const Numbers& rank : ranks) sum += (rank.*field)[chunk];
  return sum;
}

class Interpreted : public testing::TestWithParam<AlgorithmDesc> {};

TEST_P(Interpreted, SumsAreExactWithAnExactCodec) {
  std::mt19937 random(1);
  for (const Topology& topology : worlds_and_topologies()) {
    const std::int32_t world = topology.world();
    const std::vector<Schedule> schedules = build_all(GetParam(), topology);
    std::vector<Numbers> ranks = random_numbers(world, schedules[0].chunks, random);
    ASSERT_TRUE(Interpreter(schedules, [](double value) { return value; }).run(ranks)) << topology.text();
    for (std::uint32_t chunk = 0; chunk < schedules[0].chunks; ++chunk) {
      for (const Numbers& rank : ranks) {
        ASSERT_EQ(rank.output[chunk], total(ranks, &Numbers::input, chunk)) << topology.text();
        ASSERT_EQ(rank.residual[chunk], 0.0) << topology.text();
      }
    }
  }
}

// A codec that rounds to whole numbers, over several collectives: what the outputs lack is in the residuals.
TEST_P(Interpreted, LedgerBalancesAndReplicasAgreeWithALossyCodec) {
  std::mt19937 random(2);
  for (const Topology& topology : worlds_and_topologies()) {
    const std::int32_t world = topology.world();
    const std::vector<Schedule> schedules = build_all(GetParam(), topology);
    std::vector<Numbers> ranks = random_numbers(world, schedules[0].chunks, random);
    for (int collective = 0; collective < 5; ++collective) {
      const std::vector<Numbers> before = ranks;
      ASSERT_TRUE(Interpreter(schedules, [](double value) { return std::nearbyint(value); }).run(ranks));
      for (std::uint32_t chunk = 0; chunk < schedules[0].chunks; ++chunk) {
        for (const Numbers& rank : ranks) ASSERT_EQ(rank.output[chunk], ranks[0].output[chunk]);
        ASSERT_EQ(total(before, &Numbers::input, chunk) + total(before, &Numbers::residual, chunk),
                  ranks[0].output[chunk] + total(ranks, &Numbers::residual, chunk))
            << topology.text() << ", chunk " << chunk << ", collective " << collective;
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registered, Interpreted, testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace ferrule::collectives
