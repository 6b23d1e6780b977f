// Rounds: both ends of a message in the same one, what it is made of in earlier ones, and no more than
// needed.
#include "collectives/rounds.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace ferrule::collectives {
namespace {

Rounds rounds_of(const AlgorithmDesc& algorithm, const Topology& topology, std::int32_t rank) {
  auto found = find_rounds(algorithm, topology, rank);
  EXPECT_TRUE(found.ok()) << found.status().text();
  return found.ok() ? std::move(found).value() : Rounds{};
}

// (round, sender, receiver) of all messages, from the senders' side and from the receivers', in order.
using Messages = std::map<std::pair<std::int32_t, std::int32_t>, std::vector<std::uint32_t>>;

void add_messages(const Schedule& schedule, const Rounds& rounds, Messages& sent, Messages& received) {
  std::size_t sends = 0;
  std::size_t receives = 0;
  for (const Step& step : schedule.steps) {
    if (step.operation == Operation::send) {
      sent[{schedule.rank, step.peer}].push_back(rounds.sends[sends++]);
    } else if (step.operation == Operation::recv) {
      received[{step.peer, schedule.rank}].push_back(rounds.receives[receives++]);
    }
  }
}

TEST(Rounds, BothEndsOfEveryMessageAgree) {
  for (const AlgorithmDesc& algorithm : algorithms()) {
    for (std::int32_t world = 1; world <= 9; ++world) {
      Messages sent;
      Messages received;
      for (std::int32_t rank = 0; rank < world; ++rank) {
        const Rounds rounds = rounds_of(algorithm, world, rank);
        add_messages(algorithm.build(rank, world), rounds, sent, received);
      }
      EXPECT_EQ(sent, received) << algorithm.name << " of " << world;
    }
  }
}

// A message is sent only after all that it is made of has come.
TEST(Rounds, WhatAMessageIsMadeOfComesBefore) {
  for (const AlgorithmDesc& algorithm : algorithms()) {
    const Topology topology(6);
    for (std::int32_t rank = 0; rank < 6; ++rank) {
      const Rounds rounds = rounds_of(algorithm, topology, rank);
      std::map<std::uint32_t, std::uint32_t> slot;
      std::map<std::uint32_t, std::uint32_t> sum;
      std::size_t sends = 0;
      std::size_t receives = 0;
      for (const Step& step : algorithm.build(rank, topology).steps) {
        if (step.operation == Operation::recv) slot[step.slot] = rounds.receives[receives++];
        if (step.operation == Operation::decode_add && step.slot != kOwnInput) {
          sum[step.chunk] = std::max(sum[step.chunk], slot[step.slot]);
        }
        if (step.operation == Operation::hop) slot[step.slot] = step.from == kOwnInput ? 0 : slot[step.from];
        if (step.operation == Operation::encode)
          slot[step.slot] = step.from == kOwnInput ? 0 : sum[step.chunk];
        if (step.operation != Operation::send) continue;
        EXPECT_GT(rounds.sends[sends++], slot[step.slot]) << algorithm.name << ": " << to_string(step);
      }
    }
  }
}

TEST(Rounds, AreAsFewAsCanBe) {
  const auto count = [](const char* name, std::int32_t world) {
    return rounds_of(*find_algorithm(name), world, 0).count;
  };
  EXPECT_EQ(count("direct", 8), 2U);
  EXPECT_EQ(count("ring", 8), 14U);
  EXPECT_EQ(count("one_shot", 8), 1U);
  EXPECT_EQ(count("recursive_doubling", 8), 3U);
  EXPECT_EQ(count("direct", 1), 0U);
}

TEST(Rounds, AnAllGatherIsSeen) {
  const Rounds direct = rounds_of(*find_algorithm("direct"), 4, 2);
  EXPECT_TRUE(direct.gathered[1].empty()) << "an all-to-all sends different slots";
  EXPECT_EQ(direct.gathered[2], (std::vector<std::uint32_t>{0, 1, 2, 3}));
  const Rounds ring = rounds_of(*find_algorithm("ring"), 4, 2);
  for (const auto& chunks : ring.gathered) EXPECT_TRUE(chunks.empty());
}

// A schedule that waits for itself: rank 0 and 1 each send what they have yet to get.
TEST(Rounds, ADeadlockIsAnError) {
  AlgorithmDesc bad = *find_algorithm("ring");
  bad.build = [](std::int32_t rank, const Topology&) {
    Schedule schedule{rank, 2, 1, 2, {}};
    Step receive{Operation::recv, ErrorKept::add, 0, 0, 0, kOwnInput, 1 - rank, -1};
    Step send = receive;
    send.operation = Operation::send;
    schedule.steps = {receive, send};
    return schedule;
  };
  EXPECT_EQ(find_rounds(bad, 2, 0).status().code(), ErrorCode::internal);
}

}  // namespace
}  // namespace ferrule::collectives
