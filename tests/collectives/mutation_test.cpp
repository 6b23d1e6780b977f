// Every schedule of every algorithm, with every single step removed, repeated or altered: none of them is
// right, so the verifier must object to each.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/schedule.hpp"
#include "collectives/topologies.hpp"
#include "collectives/verify.hpp"

namespace ferrule::collectives {
namespace {

using Schedules = std::vector<Schedule>;

// Returns false where the mutation would change nothing.
struct Mutation {
  const char* name;
  bool (*apply)(Schedule& schedule, std::size_t index);
};

bool encodes(const Step& step) {
  return step.operation == Operation::encode || step.operation == Operation::hop;
}
bool moves(const Step& step) {
  return step.operation == Operation::send || step.operation == Operation::recv;
}

const Mutation kMutations[] = {
    {"remove",
     [](Schedule& schedule, std::size_t index) {
       schedule.steps.erase(schedule.steps.begin() + static_cast<std::ptrdiff_t>(index));
       return true;
     }},
    {"repeat",
     [](Schedule& schedule, std::size_t index) {
       const Step step = schedule.steps[index];
       // The sum may be stored only once, but it may be read twice by nobody else: every repetition is a
       // fault.
       schedule.steps.insert(schedule.steps.begin() + static_cast<std::ptrdiff_t>(index), step);
       return true;
     }},
    {"next chunk",
     [](Schedule& schedule, std::size_t index) {
       schedule.steps[index].chunk = (schedule.steps[index].chunk + 1) % schedule.chunks;
       return schedule.chunks > 1;
     }},
    {"next slot",
     [](Schedule& schedule, std::size_t index) {
       std::uint32_t& slot = schedule.steps[index].slot;
       if (slot >= schedule.slots) return false;
       slot = (slot + 1) % schedule.slots;
       return schedule.slots > 1;
     }},
    {"next peer",
     [](Schedule& schedule, std::size_t index) {
       Step& step = schedule.steps[index];
       if (!moves(step)) return false;
       step.peer = (step.peer + 1) % schedule.world;
       return true;
     }},
    {"another level",
     [](Schedule& schedule, std::size_t index) {
       Step& step = schedule.steps[index];
       if (!encodes(step) && step.operation != Operation::recv) return false;
       step.level = step.level == 0 ? 1 : 0;
       return true;
     }},
    {"drop the error",
     [](Schedule& schedule, std::size_t index) {
       Step& step = schedule.steps[index];
       if (!encodes(step) || step.error == ErrorKept::none) return false;
       step.error = ErrorKept::none;
       return true;
     }},
    {"charge the error",
     [](Schedule& schedule, std::size_t index) {
       Step& step = schedule.steps[index];
       if (!encodes(step) || step.error == ErrorKept::charge) return false;
       step.error = ErrorKept::charge;
       return true;
     }},
};

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
        for (const Mutation& mutation : kMutations) {
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
