// Every registered algorithm, proved for worlds 1 to 64, and its closed forms.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule.hpp"
#include "collectives/topologies.hpp"
#include "collectives/verify.hpp"

namespace ferrule::collectives {
namespace {

constexpr std::int32_t kLargestWorld = 64;

// What the closed forms must give for 8 ranks: one line an algorithm.
struct Known {
  std::string_view name;
  std::uint32_t chunks;
  std::uint32_t encodes;
  std::uint32_t chunks_sent;
};
constexpr std::array kKnown{
    Known{"direct", 8, 2, 14},  Known{"ring", 8, 8, 14},
    Known{"tree", 2, 4, 4},     Known{"recursive_doubling", 1, 3, 3},
    Known{"one_shot", 1, 1, 7}, Known{"hierarchical", 8, 2, 14},
};

class EveryAlgorithm : public testing::TestWithParam<AlgorithmDesc> {};

TEST_P(EveryAlgorithm, IsProvedForWorldsUpTo64) {
  for (std::int32_t world = 1; world <= kLargestWorld; ++world) {
    const Report report = verify(GetParam(), world);
    ASSERT_TRUE(report.ok()) << "world " << world << ": " << report.status().text();
  }
}

TEST_P(EveryAlgorithm, IsProvedForEveryTopology) {
  for (const Topology& topology : test::topologies()) {
    const Report report = verify(GetParam(), topology);
    ASSERT_TRUE(report.ok()) << topology.text() << ": " << report.status().text();
  }
}

TEST_P(EveryAlgorithm, IsProvedForSomeLargeWorlds) {
  // Thousands of ranks where a rank's schedule is short: a proof's cost grows with the sum of all steps.
  const bool is_short = GetParam().build(0, 1024).steps.size() < 100;
  for (const std::int32_t world : {97, 128, is_short ? 1000 : 1, is_short ? 1024 : 1}) {
    const Report report = verify(GetParam(), world);
    ASSERT_TRUE(report.ok()) << "world " << world << ": " << report.status().text();
  }
}

TEST_P(EveryAlgorithm, NeedsNeitherEncodeNorPeerInAWorldOfOne) {
  const Schedule schedule = GetParam().build(0, 1);
  for (const Step& step : schedule.steps) {
    EXPECT_THAT(step.operation, testing::AnyOf(Operation::decode_add, Operation::decode)) << to_string(step);
  }
  EXPECT_EQ(GetParam().encodes(1), 0u);
  EXPECT_EQ(GetParam().chunks_sent(1), 0u);
}

TEST_P(EveryAlgorithm, IsAPureFunction) {
  for (std::int32_t rank = 0; rank < 7; ++rank) {
    EXPECT_EQ(GetParam().build(rank, 7).steps, GetParam().build(rank, 7).steps);
  }
}

TEST_P(EveryAlgorithm, SaysWhatTheTableSaysForEightRanks) {
  const auto* known =
      std::find_if(kKnown.begin(), kKnown.end(), [](const Known& k) { return k.name == GetParam().name; });
  ASSERT_NE(known, kKnown.end()) << "give it a line in kKnown";
  EXPECT_EQ(GetParam().build(3, 8).chunks, known->chunks);
  EXPECT_EQ(GetParam().encodes(8), known->encodes);
  EXPECT_EQ(GetParam().chunks_sent(8), known->chunks_sent);
}

TEST_P(EveryAlgorithm, PrintsOneLineAStep) {
  const Schedule schedule = GetParam().build(1, 4);
  const std::string text = to_string(schedule);
  EXPECT_EQ(static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')), schedule.steps.size() + 1);
  EXPECT_THAT(text, testing::StartsWith("rank 1 of 4:"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("invalid")));
}

INSTANTIATE_TEST_SUITE_P(Registered, EveryAlgorithm,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& tested) { return std::string(tested.param.name); });

TEST(Registry, FindsByNameOnly) {
  EXPECT_EQ(algorithms().size(), kKnown.size());
  for (const Known& known : kKnown) {
    const AlgorithmDesc* found = find_algorithm(known.name);
    ASSERT_NE(found, nullptr) << known.name;
    EXPECT_EQ(found->name, known.name);
  }
  EXPECT_EQ(find_algorithm("Direct"), nullptr);
  EXPECT_EQ(find_algorithm(""), nullptr);
}

TEST(Registry, AlgorithmsThatClaimRankOrderHaveIt) {
  const std::vector<std::int32_t> nodes{2, 3};
  std::vector<std::string_view> ordered;
  for (const AlgorithmDesc& algorithm : algorithms()) {
    const bool is_ordered = verify(algorithm, Topology::of_sizes(nodes)).rank_order;
    if (is_ordered) ordered.push_back(algorithm.name);
    EXPECT_EQ(algorithm.rank_order, is_ordered) << algorithm.name;
  }
  EXPECT_THAT(ordered, testing::UnorderedElementsAre("direct", "one_shot"));
}

// An inner node of one tree is a leaf of the other, so nobody combines (decodes two and encodes) in both.
TEST(Tree, NobodyIsAnInnerNodeTwice) {
  for (std::int32_t world = 2; world <= kLargestWorld; ++world) {
    for (const Schedule& schedule : build_all(*find_algorithm("tree"), world)) {
      const auto sums = std::count_if(schedule.steps.begin(), schedule.steps.end(), [](const Step& step) {
        return step.operation == Operation::encode && step.from == kSum;
      });
      EXPECT_LE(sums, 1) << "rank " << schedule.rank << " of " << world;
    }
  }
}

// Incast: in no phase do all ranks begin with the same target.
TEST(Direct, RanksBeginWithDifferentTargets) {
  for (const Schedule& schedule : build_all(*find_algorithm("direct"), 6)) {
    const auto first = std::find_if(schedule.steps.begin(), schedule.steps.end(),
                                    [](const Step& step) { return step.operation == Operation::send; });
    EXPECT_EQ(first->peer, (schedule.rank + 1) % 6);
  }
}

}  // namespace
}  // namespace ferrule::collectives
