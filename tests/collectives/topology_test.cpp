// The texts of a topology, the trees that they give, and the errors that they deserve.
#include "collectives/topology.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "collectives/schedule.hpp"
#include "collectives/topologies.hpp"

namespace ferrule::collectives {
namespace {

using test::topology;

TEST(Topology, TextsOfTheSameTreeAreEqual) {
  EXPECT_EQ(topology("2x2", 4).text(), "0,1|2,3");
  EXPECT_EQ(topology("2+2", 4).text(), "0,1|2,3");
  EXPECT_EQ(topology("2,3|0-1", 4).text(), "0,1|2,3");
  EXPECT_EQ(topology("1+3", 4).text(), "0|1,2,3");
  EXPECT_EQ(topology("2x2x2", 8).text(), "0,1|2,3||4,5|6,7");
  EXPECT_EQ(Topology::of_hosts(std::vector<std::string>{"b", "a", "b"}).text(), "0,2|1");
  EXPECT_EQ(Topology(7).text(), "flat 7");
}

TEST(Topology, LongTextsAreDigestsThatDiffer) {
  const std::string one = topology("100x2", 200).text();
  const std::string other = topology("50x4", 200).text();
  EXPECT_LT(one.size(), 100u);
  EXPECT_NE(one, other);
}

TEST(Topology, KnowsItsLevels) {
  const Topology flat(4);
  EXPECT_EQ(flat.levels(), 1u);
  EXPECT_TRUE(flat.is_used(0));
  const Topology three = topology("0|1||2,3,4", 5);
  EXPECT_EQ(three.levels(), 3u);
  EXPECT_EQ(three.groups(0), 3);
  EXPECT_EQ(three.groups(1), 2);
  EXPECT_EQ(three.groups(2), 1);
  EXPECT_EQ(three.size(0, three.group_of(0, 4)), 3);
  EXPECT_EQ(three.result_level(), 2u);
  const Topology one_host = topology("1x4", 4);
  EXPECT_FALSE(one_host.is_used(1));
  EXPECT_EQ(one_host.result_level(), 0u);
  const Topology lone_ranks = topology("4x1", 4);
  EXPECT_FALSE(lone_ranks.is_used(0));
  EXPECT_EQ(lone_ranks.result_level(), 1u);
}

TEST(Topology, RefusesWhatIsNoTree) {
  EXPECT_FALSE(Topology::make(3, {{0, 0, 1}, {0, 1, 1}}).ok());
  EXPECT_TRUE(Topology::make(3, {{0, 0, 1}, {1, 1, 0}}).ok());
}

struct Bad {
  const char* text;
  const char* reason;
};

TEST(Topology, BadTextsAreErrorsThatSayWhy) {
  const Bad kBad[] = {
      {"", "names no nodes"},
      {"4", "names no nodes"},
      {"hosts", "names no nodes"},
      {"2x3", "it has 6 ranks, the world 4"},
      {"2xx2", "'' is no size"},
      {"0x4", "'0' is no size"},
      {"-2x-2", "'-2' is no size"},
      {"99999x99999", "too many ranks"},
      {"1+2", "it has 3 ranks, the world 4"},
      {"4+", "'' is no size"},
      {"0,1|2", "rank 3 of 4 is missing"},
      {"0,1|1-3", "rank 1 stands twice"},
      {"0-2|9", "there is no rank 9 in a world of 4"},
      {"0-2|99999999999", "'99999999999' is no rank"},
      {"3-0|1", "'3-0' is no rank"},
      {"0,1||", "'' is no rank"},
      {"0||||||||||1,2,3", "too many levels"},
  };
  for (const Bad& bad : kBad) {
    const auto parsed = Topology::parse(bad.text, 4);
    ASSERT_FALSE(parsed.ok()) << bad.text;
    EXPECT_EQ(parsed.status().code(), ErrorCode::invalid_argument);
    EXPECT_THAT(parsed.status().text(), testing::HasSubstr(bad.reason)) << bad.text;
  }
}

// What crosses a node's boundary does not grow with the ranks inside: 2 (M-1)/M of the tensor for M nodes.
TEST(Hierarchical, SendsBetweenNodesOnlyWhatTheirNumberAsksFor) {
  for (const char* text : {"2x4", "4x2", "1+7", "3+5", "2+3+3"}) {
    const Topology nodes = topology(text, 8);
    std::vector<std::uint32_t> crossed(static_cast<std::size_t>(nodes.groups(0)));
    std::uint32_t chunks = 0;
    for (std::int32_t rank = 0; rank < 8; ++rank) {
      const Schedule schedule = find_algorithm("hierarchical")->build(rank, nodes);
      chunks = schedule.chunks;
      for (const Step& step : schedule.steps) {
        const bool leaves =
            step.operation == Operation::send && nodes.group_of(0, step.peer) != nodes.group_of(0, rank);
        crossed[static_cast<std::size_t>(nodes.group_of(0, rank))] += leaves ? 1 : 0;
      }
    }
    const auto count = static_cast<std::uint32_t>(crossed.size());
    for (const std::uint32_t sent : crossed) EXPECT_EQ(sent, 2 * (count - 1) * chunks / count) << text;
  }
}

// All ranks of a node carry their share of what leaves it.
TEST(Hierarchical, RanksOfANodeShareWhatLeavesIt) {
  const Topology nodes = topology("1+3+4", 8);
  for (std::int32_t rank = 0; rank < 8; ++rank) {
    const Schedule schedule = find_algorithm("hierarchical")->build(rank, nodes);
    std::uint32_t crossed = 0;
    for (const Step& step : schedule.steps) {
      const bool leaves =
          step.operation == Operation::send && nodes.group_of(0, step.peer) != nodes.group_of(0, rank);
      crossed += leaves ? 1 : 0;
    }
    const auto node_ranks = static_cast<std::uint32_t>(nodes.size(0, nodes.group_of(0, rank)));
    EXPECT_EQ(crossed, 2 * schedule.chunks * 2 / 3 / node_ranks) << "rank " << rank;
  }
}

// One rank a host, or one host: what is left is direct, step for step but for the level.
TEST(Hierarchical, WithoutNodesIsDirect) {
  for (const char* text : {"6x1", "1x6"}) {
    for (std::int32_t rank = 0; rank < 6; ++rank) {
      Schedule schedule = find_algorithm("hierarchical")->build(rank, topology(text, 6));
      const Schedule direct = find_algorithm("direct")->build(rank, 6);
      const auto level = static_cast<std::uint8_t>(topology(text, 6).result_level());
      std::set<std::pair<std::int32_t, std::uint32_t>> sends;  // peer, chunk
      std::set<std::pair<std::int32_t, std::uint32_t>> direct_sends;
      for (const Step& step : schedule.steps) {
        if (step.operation == Operation::send) sends.emplace(step.peer, step.chunk);
        if (step.operation == Operation::encode || step.operation == Operation::recv) {
          EXPECT_EQ(step.level, level);
        }
      }
      for (const Step& step : direct.steps) {
        if (step.operation == Operation::send) direct_sends.emplace(step.peer, step.chunk);
      }
      EXPECT_EQ(sends, direct_sends);
      EXPECT_EQ(schedule.steps.size(), direct.steps.size());
    }
  }
}

}  // namespace
}  // namespace ferrule::collectives
