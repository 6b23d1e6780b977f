// The selection table: its rows against the schedules, and the choices that come out of it.
#include "plan/selection.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

namespace ferrule::plan {
namespace {

using collectives::Operation;
using collectives::Schedule;

Situation situation_of(std::int32_t world, std::size_t bytes, bool exact = true, DType dtype = DType::f32) {
  Situation situation;
  situation.world = world;
  situation.count = bytes / element_bytes(dtype);
  situation.encoded_bytes = bytes;
  situation.dtype = dtype;
  situation.exact = exact;
  return situation;
}

std::string_view chosen(const Situation& situation, const LinkModel& link = {}) {
  auto choice = choose_algorithm(situation, link);
  EXPECT_TRUE(choice.ok()) << choice.status().text();
  return choice.ok() ? choice->algorithm->name : "";
}

// The longest chain of messages, all ranks walked together: a receive is one round after the send that it
// matches.
double longest_chain(const collectives::AlgorithmDesc& algorithm, std::int32_t world) {
  struct Rank {
    Schedule schedule;
    std::size_t next = 0;
    std::map<std::uint32_t, double> slots;  // round at which a slot's bytes are there
    std::map<std::uint32_t, double> sums;   // by chunk
  };
  std::vector<Rank> ranks(static_cast<std::size_t>(world));
  for (std::int32_t r = 0; r < world; ++r)
    ranks[static_cast<std::size_t>(r)].schedule = algorithm.build(r, world);
  std::map<std::pair<std::int32_t, std::int32_t>, std::vector<double>> sent;
  std::map<std::pair<std::int32_t, std::int32_t>, std::size_t> received;
  double longest = 0;
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int32_t r = 0; r < world; ++r) {
      Rank& rank = ranks[static_cast<std::size_t>(r)];
      for (; rank.next < rank.schedule.steps.size(); ++rank.next, moved = true) {
        const collectives::Step& step = rank.schedule.steps[rank.next];
        if (step.operation == Operation::send) {
          sent[{r, step.peer}].push_back(rank.slots[step.slot]);
        } else if (step.operation == Operation::recv) {
          const auto& from = sent[{step.peer, r}];
          std::size_t& taken = received[{step.peer, r}];
          if (taken == from.size()) break;
          longest = std::max(longest, rank.slots[step.slot] = from[taken++] + 1);
        } else if (step.operation == Operation::decode_add) {
          if (step.slot == collectives::kOwnInput) continue;
          rank.sums[step.chunk] = std::max(rank.sums[step.chunk], rank.slots[step.slot]);
        } else if (step.operation == Operation::encode) {
          rank.slots[step.slot] = step.from == collectives::kOwnInput ? 0 : rank.sums[step.chunk];
        } else if (step.operation == Operation::hop) {
          rank.slots[step.slot] = rank.slots[step.from];
        }
      }
    }
  }
  return longest;
}

TEST(SelectionTable, EveryRowIsRegisteredAndItsRoundsAreThoseOfTheSchedules) {
  for (const Candidate& candidate : selection_table()) {
    const auto* algorithm = collectives::find_algorithm(candidate.algorithm, candidate.collective);
    ASSERT_NE(algorithm, nullptr) << candidate.algorithm;
    // A barrier's messages hold nothing that the next is made of, so no chain of bytes shows its rounds.
    if (candidate.collective == collectives::Collective::barrier) continue;
    if (algorithm->uses_topology()) continue;  // its rounds are those of two levels, not of a flat world
    for (const std::int32_t world : {2, 3, 4, 5, 8, 13, 16}) {
      const double rounds = longest_chain(*algorithm, world);
      // The tree's depth varies with the world by a level or two; doubling takes one round less where one
      // rank alone is folded in, and so does a broadcast to one. The others are exact.
      const bool one_less = candidate.algorithm == "recursive_doubling" ||
                            candidate.collective == collectives::Collective::broadcast;
      const double slack = candidate.algorithm == "tree" ? 2 : one_less ? 1 : 0;
      EXPECT_NEAR(rounds_of(*algorithm, world), rounds, slack) << candidate.algorithm << " of " << world;
    }
  }
}

TEST(Selection, SmallMessagesTakeFewRoundsAndLargeOnesFewBytes) {
  EXPECT_EQ(chosen(situation_of(2, 4)), "one_shot");
  EXPECT_EQ(chosen(situation_of(16, 4)), "recursive_doubling");
  for (const std::int32_t world : {2, 3, 4, 8, 64})
    EXPECT_EQ(chosen(situation_of(world, 64 << 20)), "direct");
}

TEST(Selection, ALongerLatencyFavoursFewRounds) {
  const LinkModel slow_start{50e-3, 0, 1e-9};
  EXPECT_EQ(chosen(situation_of(16, 256 << 10), slow_start), "direct");  // 2 rounds against 4
  const LinkModel slow_messages{20e-6, 20e-6, 1e-9};
  EXPECT_EQ(chosen(situation_of(16, 16 << 10), slow_messages),
            "recursive_doubling");  // 4 messages against 30
}

TEST(Selection, ManyRanksAndSmallMessagesTakeATree) {
  const LinkModel link{5e-6, 1e-6, 0.1e-9};
  EXPECT_EQ(chosen(situation_of(10000, 1 << 20), link), "tree");
  EXPECT_EQ(chosen(situation_of(10000, std::size_t{4} << 30), {5e-6, 0, 0.1e-9}), "direct");
}

TEST(Selection, LossySumsAndNarrowOnesAreNeverEncodedOften) {
  for (const std::int32_t world : {2, 3, 8, 64, 1000}) {
    for (std::size_t bytes = 4; bytes <= 1 << 30; bytes *= 8) {
      for (const LinkModel& link :
           {LinkModel{}, LinkModel{1e-3, 1e-3, 1e-10}, LinkModel{1e-9, 1e-3, 1e-12}}) {
        for (const Situation& situation :
             {situation_of(world, bytes, false), situation_of(world, bytes, true, DType::f16)}) {
          auto choice = choose_algorithm(situation, link);
          ASSERT_TRUE(choice.ok());
          EXPECT_LE(choice->algorithm->encodes(world), 2U);
          EXPECT_LE(choice->algorithm->encodes(world), most_encodes(world, situation.dtype, situation.exact));
        }
      }
    }
  }
}

TEST(Selection, ARowThatIsThereForItsNameIsNeverChosen) {
  for (std::size_t bytes = 4; bytes <= 1 << 30; bytes *= 2)
    EXPECT_NE(chosen(situation_of(100, bytes), {1e-9, 0, 1e-9}), "ring");
}

}  // namespace
}  // namespace ferrule::plan
