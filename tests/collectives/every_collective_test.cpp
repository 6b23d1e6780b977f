// The collectives beside all-reduce: every algorithm, root and topology is proved by the verifier, and the
// verifier objects to every way of breaking one step of them, by the right name.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "collectives/mutations.hpp"
#include "collectives/schedule.hpp"
#include "collectives/topologies.hpp"
#include "collectives/verify.hpp"

namespace ferrule::collectives {
namespace {

using Schedules = std::vector<Schedule>;

std::vector<AlgorithmDesc> everything_else() {
  std::vector<AlgorithmDesc> all;
  for (int i = 1; i < kCollectiveCount; ++i) {
    for (const AlgorithmDesc& each : algorithms(static_cast<Collective>(i))) all.push_back(each);
  }
  return all;
}

std::string name_of(const testing::TestParamInfo<AlgorithmDesc>& tested) {
  return std::string(name(tested.param.collective)) + "_" + std::string(tested.param.name);
}

std::vector<Topology> topologies_for(const AlgorithmDesc& algorithm, std::int32_t most) {
  std::vector<Topology> topologies;
  for (std::int32_t world = 1; world <= most; ++world) topologies.emplace_back(world);
  if (!algorithm.uses_topology()) return topologies;
  for (const char* text : {"2x2", "1+3", "3+1", "0,2|1,3", "1+1+1+1"}) {
    topologies.push_back(test::topology(text, 4));
  }
  topologies.push_back(test::topology("2x4", 8));
  topologies.push_back(test::topology("1+3+4", 8));
  topologies.push_back(test::topology("2x2x2", 8));
  topologies.push_back(test::topology("0|1,2||3,4", 5));
  return topologies;
}

std::vector<std::int32_t> roots_of(const AlgorithmDesc& algorithm, std::int32_t world) {
  std::vector<std::int32_t> roots{0};
  for (std::int32_t root = 1; has_root(algorithm.collective) && root < world; ++root) roots.push_back(root);
  return roots;
}

class EveryCollective : public testing::TestWithParam<AlgorithmDesc> {};

TEST_P(EveryCollective, IsProvedForEveryWorldRootAndTopology) {
  for (const Topology& topology : topologies_for(GetParam(), 12)) {
    for (const std::int32_t root : roots_of(GetParam(), topology.world())) {
      const Report report = verify(GetParam(), topology, root);
      ASSERT_TRUE(report.ok()) << topology.text() << ", root " << root << ": " << report.status().text();
    }
  }
}

TEST_P(EveryCollective, ObjectsToEveryBrokenStep) {
  for (const Topology& topology : topologies_for(GetParam(), 5)) {
    for (const std::int32_t root : roots_of(GetParam(), topology.world())) {
      if (topology.world() == 1) continue;
      const Schedules right = build_all(GetParam(), topology, root);
      for (std::size_t rank = 0; rank < right.size(); ++rank) {
        for (std::size_t index = 0; index < right[rank].steps.size(); ++index) {
          for (const test::Mutation& mutation : test::kMutations) {
            Schedules wrong = right;
            if (!mutation.apply(wrong[rank], index)) continue;
            EXPECT_FALSE(verify(wrong, GetParam().collective, root).ok())
                << topology.text() << ", root " << root << ", " << mutation.name << ", rank " << rank
                << ", step " << index << ": " << to_string(right[rank].steps[index]);
          }
        }
      }
    }
  }
}

TEST_P(EveryCollective, HasAFingerprintOfItsOwn) {
  for (const AlgorithmDesc& other : everything_else()) {
    const bool same = other.name == GetParam().name && other.collective == GetParam().collective;
    EXPECT_EQ(fingerprint(other, 4) == fingerprint(GetParam(), 4), same) << name(other.collective);
  }
  if (has_root(GetParam().collective)) {
    EXPECT_NE(fingerprint(GetParam(), 4, 0), fingerprint(GetParam(), 4, 1));
  }
}

INSTANTIATE_TEST_SUITE_P(Registered, EveryCollective, testing::ValuesIn(everything_else()), name_of);

TEST(Contracts, OneCollectiveIsNotAnother) {
  for (const AlgorithmDesc& algorithm : everything_else()) {
    if (algorithm.collective == Collective::barrier) continue;
    for (int i = 0; i < kCollectiveCount; ++i) {
      const auto taken_for = static_cast<Collective>(i);
      EXPECT_EQ(verify(build_all(algorithm, 3), taken_for, 0).ok(), taken_for == algorithm.collective)
          << name(algorithm.collective) << " " << algorithm.name << " taken for " << name(taken_for);
    }
  }
}

TEST(Contracts, AnotherRootIsAFault) {
  for (const AlgorithmDesc& algorithm : everything_else()) {
    if (!has_root(algorithm.collective)) continue;
    EXPECT_FALSE(verify(build_all(algorithm, 4, 1), algorithm.collective, 2).ok())
        << name(algorithm.collective);
  }
}

// ---- planted faults: the verifier names the cause, first, and the rank

struct Planted {
  const char* name;
  Collective collective;
  const char* algorithm;
  void (*plant)(Schedules& ranks);  // world 4, root 0
  Fault fault;
  std::int32_t rank;
  const char* text;
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

std::size_t find(const Schedule& schedule, Operation operation, std::size_t n) {
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    if (schedule.steps[i].operation == operation && n-- == 0) return i;
  }
  ADD_FAILURE() << "no such step in\n" << to_string(schedule);
  return 0;
}

Step& step(Schedule& schedule, Operation operation, std::size_t n) {
  return schedule.steps[find(schedule, operation, n)];
}

void erase(Schedule& schedule, Operation operation, std::size_t n) {
  schedule.steps.erase(schedule.steps.begin() + static_cast<std::ptrdiff_t>(find(schedule, operation, n)));
}

const Planted kPlanted[] = {
    {"reduce_scatter_forgets_a_contribution", Collective::reduce_scatter, "direct",
     [](Schedules& r) {
       erase(r[2], Operation::recv, 1);
       erase(r[0], Operation::send, 1);
       erase(r[0], Operation::encode, 1);
       erase(r[2], Operation::decode_add, 0);
     },
     Fault::contribution_missing, 2, "has the input of rank 0 0 times"},
    {"reduce_scatter_keeps_another_ranks_chunk", Collective::reduce_scatter, "direct",
     [](Schedules& r) {
       Step sum = step(r[1], Operation::decode_add, 1);
       sum.chunk = 3;
       Step out = step(r[1], Operation::decode, 0);
       out.chunk = 3;
       r[1].steps.push_back(sum);
       r[1].steps.push_back(out);
     },
     Fault::output_unwanted, 1, "does not get chunk 3"},
    {"ring_reduce_scatter_misses_a_hop", Collective::reduce_scatter, "ring",
     [](Schedules& r) {
       Step& hop = step(r[3], Operation::hop, 0);
       const std::uint32_t received = hop.from;
       const std::uint32_t made = hop.slot;
       for (Step& each : r[3].steps) {
         if (each.operation == Operation::send && each.slot == made) each.slot = received;
       }
       erase(r[3], Operation::hop, 0);
     },
     Fault::slot_unwritten, 3, "of the same batch receives slot"},
    {"reduce_scatter_encodes_a_chunk_twice", Collective::reduce_scatter, "direct",
     [](Schedules& r) {
       Step again = step(r[0], Operation::encode, 0);
       again.slot = r[0].slots++;
       r[0].steps.insert(r[0].steps.begin(), again);
     },
     Fault::residual_reused, 0, "was added before"},
    {"all_gather_owner_keeps_its_input", Collective::all_gather, "direct",
     [](Schedules& r) {
       Step& own = step(r[2], Operation::decode, 0);
       own.slot = kSum;
       r[2].steps.insert(r[2].steps.begin(),
                         {.operation = Operation::decode_add, .chunk = 2, .slot = kOwnInput});
     },
     Fault::replicas_differ, 2, "is the own input of rank 2"},
    {"all_gather_encodes_again_what_it_forwards", Collective::all_gather, "ring",
     [](Schedules& r) {
       Step& forward = step(r[1], Operation::send, 1);
       const std::uint32_t received = forward.slot;
       const std::uint32_t chunk = forward.chunk;
       forward.slot = r[1].slots++;
       const std::size_t at = find(r[1], Operation::send, 1);
       const Step steps[] = {{.operation = Operation::decode_add, .chunk = chunk, .slot = received},
                             {.operation = Operation::encode,
                              .chunk = chunk,
                              .slot = r[1].slots - 1,
                              .from = kSum,
                              .noise_rank = 1}};
       r[1].steps.insert(r[1].steps.begin() + static_cast<std::ptrdiff_t>(at), std::begin(steps),
                         std::end(steps));
     },
     Fault::replicas_differ, -1, "rank 1, step"},
    {"all_gather_leaves_a_part_out", Collective::all_gather, "direct",
     [](Schedules& r) {
       const std::uint32_t slot = step(r[3], Operation::decode, 2).slot;
       erase(r[3], Operation::decode, 2);
       static_cast<void>(slot);
     },
     Fault::output_missing, 3, "chunk 1 has no output"},
    {"broadcast_from_the_wrong_rank", Collective::broadcast, "tree",
     [](Schedules& r) { std::swap(r[0].steps, r[2].steps); }, Fault::malformed, 0, "cannot be its peer"},
    {"broadcast_sends_its_own_input", Collective::broadcast, "tree",
     [](Schedules& r) {
       r[2].steps.insert(r[2].steps.begin() + 1,
                         {.operation = Operation::encode, .chunk = 0, .slot = r[2].slots, .noise_rank = 2});
       step(r[2], Operation::send, 0).slot = r[2].slots++;
     },
     Fault::input_absent, 2, "brings nothing to chunk 0"},
    {"broadcast_leaves_a_rank_out", Collective::broadcast, "direct",
     [](Schedules& r) { erase(r[3], Operation::decode, 1); }, Fault::output_missing, 3,
     "chunk 2 has no output"},
    {"reduce_leaves_the_result_elsewhere_too", Collective::reduce, "direct",
     [](Schedules& r) {
       const std::uint32_t slot = step(r[1], Operation::send, 3).slot;
       r[1].steps.push_back({.operation = Operation::decode, .chunk = 1, .slot = slot});
     },
     Fault::output_unwanted, 1, "does not get chunk 1"},
    {"reduce_adds_a_contribution_twice", Collective::reduce, "one_shot",
     [](Schedules& r) {
       const Step add = step(r[0], Operation::decode_add, 2);
       r[0].steps.insert(
           r[0].steps.begin() + static_cast<std::ptrdiff_t>(find(r[0], Operation::decode_add, 2)), add);
     },
     Fault::contribution_repeated, 0, "has the input of rank 2 2 times"},
    {"gather_swaps_two_parts", Collective::gather, "direct",
     [](Schedules& r) {
       std::swap(step(r[0], Operation::recv, 0).peer, step(r[0], Operation::recv, 1).peer);
     },
     Fault::chunk_mismatch, 1, "expects chunk 2"},
    {"scatter_gives_a_rank_the_part_of_another", Collective::scatter, "direct",
     [](Schedules& r) {
       step(r[0], Operation::send, 1).chunk = 1;
       step(r[2], Operation::recv, 0).chunk = 1;
       step(r[2], Operation::decode, 0).chunk = 1;
     },
     Fault::slot_of_other_chunk, 0, "has written chunk 2"},
    {"all_to_all_forgets_what_stays_at_home", Collective::all_to_all, "direct",
     [](Schedules& r) {
       erase(r[1], Operation::decode_add, 0);
       erase(r[1], Operation::decode, 0);
     },
     Fault::output_missing, 1, "chunk 5 has no output"},
    {"all_to_all_sends_before_it_receives", Collective::all_to_all, "direct",
     [](Schedules& r) {
       for (Schedule& schedule : r) {
         // Each waits for the next to take what it sends before it takes anything itself.
         Step other = step(schedule, Operation::decode_add, 0);
         erase(schedule, Operation::decode_add, 0);
         schedule.steps.insert(
             schedule.steps.begin() + static_cast<std::ptrdiff_t>(find(schedule, Operation::recv, 0)), other);
       }
     },
     Fault::deadlock, 0, "waits for rank"},
    {"a_rank_comes_to_a_barrier_with_data", Collective::barrier, "dissemination",
     [](Schedules& r) {
       r[1].slots = 1;
       r[1].steps.push_back({.operation = Operation::encode, .chunk = 0, .slot = 0, .noise_rank = 1});
     },
     Fault::input_absent, 1, "brings nothing"},
};

class PlantedInCollective : public testing::TestWithParam<Planted> {};

TEST_P(PlantedInCollective, IsFoundAndNamed) {
  const Planted& planted = GetParam();
  Schedules schedules = build_all(*find_algorithm(planted.algorithm, planted.collective), 4);
  ASSERT_TRUE(verify(schedules, planted.collective, 0).ok());
  planted.plant(schedules);
  const Report report = verify(schedules, planted.collective, 0);
  ASSERT_FALSE(report.ok());
  const Finding& first = report.findings.front();
  EXPECT_EQ(fault_name(first.fault), fault_name(planted.fault)) << first.text;
  if (planted.rank >= 0) {
    EXPECT_EQ(first.place.rank, planted.rank) << first.text;
  }
  EXPECT_THAT(first.text, testing::HasSubstr(planted.text));
}

INSTANTIATE_TEST_SUITE_P(Schedules, PlantedInCollective, testing::ValuesIn(kPlanted),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace ferrule::collectives
