// Every schedule of every algorithm, with every single step removed, repeated or altered: none of them is
// right, so the verifier must object to each.
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

#include "collectives/mutations.hpp"
#include "collectives/schedule.hpp"
#include "collectives/topologies.hpp"
#include "collectives/verify.hpp"

namespace ferrule::collectives {
namespace {

using Schedules = std::vector<Schedule>;

class MutatedAlgorithm : public testing::TestWithParam<AlgorithmDesc> {};

TEST_P(MutatedAlgorithm, IsAlwaysRefused) {
  std::vector<Topology> topologies{2, 3, 4, 5, 6, 8};
  if (GetParam().uses_topology()) {
    for (const char* text : {"2x2", "1+3", "0,2|1,3"}) topologies.push_back(test::topology(text, 4));
    topologies.push_back(test::topology("0|1||2,3", 4));
    topologies.push_back(test::topology("0|1,2||3,4", 5));
  }
  for (const Topology& topology : topologies) {
    const Schedules right = build_all(GetParam(), topology);
    ASSERT_TRUE(verify(right).ok());
    for (std::size_t rank = 0; rank < right.size(); ++rank) {
      for (std::size_t index = 0; index < right[rank].steps.size(); ++index) {
        for (const test::Mutation& mutation : test::kMutations) {
          Schedules wrong = right;
          if (!mutation.apply(wrong[rank], index)) continue;
          EXPECT_FALSE(verify(wrong).ok())
              << topology.text() << ", " << mutation.name << ", rank " << rank << ", step " << index << ": "
              << to_string(right[rank].steps[index]);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Registered, MutatedAlgorithm,
                         testing::ValuesIn(algorithms().begin(), algorithms().end()),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace ferrule::collectives
