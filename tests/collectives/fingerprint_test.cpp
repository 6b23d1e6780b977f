// Fingerprints differ whenever peers would not understand each other.
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <string>

#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

const AlgorithmDesc& direct() { return *find_algorithm("direct"); }

// `direct`, but one field of one step of one rank is another.
std::int32_t changed_rank = 0;
void (*change)(Step&) = nullptr;
Schedule build_changed(std::int32_t rank, const Topology& topology) {
  Schedule schedule = direct().build(rank, topology);
  if (rank == changed_rank) change(schedule.steps.back());
  return schedule;
}

TEST(Fingerprint, IsAFunctionOfAlgorithmAndWorld) {
  std::set<std::uint64_t> seen;
  std::size_t count = 0;
  for (const AlgorithmDesc& algorithm : algorithms()) {
    for (const std::int32_t world : {1, 2, 3, 4, 5, 8, 16, 63, 64, 65, 66, 100}) {
      EXPECT_EQ(fingerprint(algorithm, world), fingerprint(algorithm, world));
      seen.insert(fingerprint(algorithm, world));
      ++count;
    }
  }
  EXPECT_EQ(seen.size(), count);
}

TEST(Fingerprint, CoversEveryFieldOfEveryRank) {
  AlgorithmDesc other = direct();
  other.build = build_changed;
  change = [](Step&) {};
  ASSERT_EQ(fingerprint(other, 5), fingerprint(direct(), 5));
  void (*const changes[])(Step&) = {
      [](Step& step) { step.operation = Operation::decode_add; },
      [](Step& step) { step.error = ErrorKept::none; },
      [](Step& step) { ++step.level; },
      [](Step& step) { ++step.chunk; },
      [](Step& step) { ++step.slot; },
      [](Step& step) { --step.from; },
      [](Step& step) { ++step.peer; },
      [](Step& step) { ++step.noise_rank; },
  };
  for (const auto& one : changes) {
    change = one;
    for (changed_rank = 0; changed_rank < 5; ++changed_rank) {
      EXPECT_NE(fingerprint(other, 5), fingerprint(direct(), 5)) << "rank " << changed_rank;
    }
  }
}

TEST(Fingerprint, CoversTheFirstAndTheLastRankOfALargeWorld) {
  AlgorithmDesc other = direct();
  other.build = build_changed;
  change = [](Step& step) { ++step.slot; };
  for (const std::int32_t rank : {0, 99}) {
    changed_rank = rank;
    EXPECT_NE(fingerprint(other, 100), fingerprint(direct(), 100)) << "rank " << rank;
  }
}

// Ranks that see other neighbours must notice, even where the sampled ranks' schedules are the same.
TEST(Fingerprint, CoversTheTopologyOfAlgorithmsThatUseIt) {
  std::set<std::uint64_t> seen;
  for (const char* text : {"2x2", "1x4", "4x1", "1+3", "3+1", "0,2|1,3", "0|1||2,3", "1x2x2"}) {
    const auto topology = Topology::parse(text, 4);
    ASSERT_TRUE(topology.ok()) << topology.status().text();
    EXPECT_TRUE(seen.insert(fingerprint(*find_algorithm("hierarchical"), *topology)).second) << text;
    EXPECT_EQ(fingerprint(direct(), *topology), fingerprint(direct(), 4)) << text;
  }
}

TEST(Fingerprint, CoversTheName) {
  AlgorithmDesc other = direct();
  other.name = "direct2";
  EXPECT_NE(fingerprint(other, 4), fingerprint(direct(), 4));
}

}  // namespace
}  // namespace ferrule::collectives
