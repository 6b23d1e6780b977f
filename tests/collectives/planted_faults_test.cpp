// Correct schedules, broken on purpose in one place: the verifier must catch each, name the rank and the
// reason, and name the cause first. These faults stay in the suite for good.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule.hpp"
#include "collectives/topologies.hpp"
#include "collectives/verify.hpp"

namespace ferrule::collectives {
namespace {

using Schedules = std::vector<Schedule>;

// Index of the n-th step (from 0) of a kind.
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

void insert_at(Schedule& schedule, std::size_t index, const Step& what) {
  schedule.steps.insert(schedule.steps.begin() + static_cast<std::ptrdiff_t>(index), what);
}

void repeat(Schedule& schedule, Operation operation, std::size_t n) {
  insert_at(schedule, find(schedule, operation, n), step(schedule, operation, n));
}

// The step that encodes a sum.
Step& sum_encode(Schedule& schedule) {
  const auto found = std::find_if(schedule.steps.begin(), schedule.steps.end(), [](const Step& s) {
    return s.operation == Operation::encode && s.from == kSum;
  });
  return *found;
}

// In ring's all-gather (world 4), rank 1 decodes and encodes again what it should forward.
void reencode_instead_of_forwarding(Schedule& schedule, ErrorKept error) {
  Step& forward = step(schedule, Operation::send, 4);
  const std::uint32_t chunk = forward.chunk;
  const std::uint32_t received = forward.slot;
  const std::uint32_t again = schedule.slots++;
  forward.slot = again;
  const std::size_t at = find(schedule, Operation::send, 4);
  insert_at(schedule, at,
            {.operation = Operation::encode,
             .error = error,
             .chunk = chunk,
             .slot = again,
             .from = kSum,
             .noise_rank = 9});
  insert_at(schedule, at, {.operation = Operation::decode_add, .chunk = chunk, .slot = received});
}

// direct: the first send leaves before the other contributions are encoded, in a batch of its own.
void send_alone(Schedule& schedule) {
  const Step send = step(schedule, Operation::send, 0);
  erase(schedule, Operation::send, 0);
  insert_at(schedule, 1, send);
}

struct Planted {
  std::string_view name;
  std::string_view algorithm;
  std::int32_t world;
  void (*plant)(Schedules& ranks);
  Fault fault;                     // of the first finding
  std::int32_t rank;               // of the first finding; -1: any, the fault is in a relation between ranks
  std::string_view text;           // part of the first finding
  const char* topology = nullptr;  // null: flat
};

void PrintTo(const Planted& planted, std::ostream* out) { *out << planted.name; }

const Planted kPlanted[] = {
    // Matching and order
    {"wrong_chunk_sent", "direct", 4, [](Schedules& r) { step(r[1], Operation::send, 0).chunk = 3; },
     Fault::chunk_mismatch, 1, "expects chunk 2"},
    {"wrong_peer", "one_shot", 4, [](Schedules& r) { step(r[0], Operation::send, 0).peer = 2; },
     Fault::unmatched_recv, 1, "the peer sends 0 times"},
    {"missing_recv", "direct", 4, [](Schedules& r) { erase(r[2], Operation::recv, 5); },
     Fault::unmatched_send, 3, "the peer receives 1 times"},
    {"missing_send", "tree", 5, [](Schedules& r) { erase(r[3], Operation::send, 1); }, Fault::unmatched_recv,
     1, "the peer sends 0 times"},
    {"extra_send", "ring", 4, [](Schedules& r) { repeat(r[3], Operation::send, 5); }, Fault::unmatched_send,
     3, "and this is send 7"},
    {"extra_recv", "one_shot", 3,
     [](Schedules& r) {
       repeat(r[0], Operation::recv, 1);
       step(r[0], Operation::recv, 1).slot = r[0].slots++;
     },
     Fault::unmatched_recv, 0, "and this is receive 2"},
    {"blocking_order", "direct", 4,
     [](Schedules& r) {
       for (Schedule& schedule : r) send_alone(schedule);
     },
     Fault::deadlock, 0, "waits for rank 1, which is held up in the batch that begins at step 1"},
    {"two_ranks_wait_for_each_other", "recursive_doubling", 2,
     [](Schedules& r) {
       // recv, then (after something else) send: harmless on one rank, fatal on both.
       for (Schedule& schedule : r) {
         std::swap(schedule.steps[0], schedule.steps[2]);  // recv, send, encode
         std::swap(schedule.steps[1], schedule.steps[2]);  // recv, encode, send
       }
     },
     Fault::deadlock, 0, "waits for rank 1"},
    {"another_algorithm_on_one_rank", "direct", 4,
     [](Schedules& r) { r[2] = find_algorithm("ring")->build(2, 4); }, Fault::unmatched_send, -1,
     "the peer receives"},

    // Slots
    {"slot_reused", "direct", 4,
     [](Schedules& r) { step(r[0], Operation::recv, 1).slot = step(r[0], Operation::recv, 0).slot; },
     Fault::slot_rewritten, 0, "has written slot"},
    {"send_before_encode", "direct", 4,
     [](Schedules& r) { std::swap(r[3].steps[0], step(r[3], Operation::send, 0)); }, Fault::slot_unwritten, 3,
     "nothing has written slot 0 before"},
    {"forwards_what_the_same_batch_receives", "ring", 4,
     [](Schedules& r) {
       const Step late = step(r[2], Operation::decode, 0);
       erase(r[2], Operation::decode, 0);
       r[2].steps.push_back(late);
     },
     Fault::slot_unwritten, 2, "of the same batch receives slot"},
    {"reads_another_chunk", "direct", 4,
     [](Schedules& r) {
       std::swap(step(r[0], Operation::decode, 1).slot, step(r[0], Operation::decode, 2).slot);
     },
     Fault::slot_of_other_chunk, 0, "has written chunk"},
    {"received_and_forgotten", "one_shot", 4, [](Schedules& r) { erase(r[1], Operation::decode_add, 2); },
     Fault::slot_unused, 1, "nothing reads what it writes"},

    // Sums, inputs and outputs
    {"missing_hop", "ring", 4,
     [](Schedules& r) {
       const Step hop = step(r[1], Operation::hop, 0);
       erase(r[1], Operation::hop, 0);
       step(r[1], Operation::send, 1).slot = hop.from;
       // Something must still stand between the two batches.
       insert_at(r[1], find(r[1], Operation::send, 1),
                 {.operation = Operation::decode_add, .chunk = hop.chunk, .slot = hop.from});
       insert_at(r[1], find(r[1], Operation::send, 1),
                 {.operation = Operation::encode,
                  .chunk = hop.chunk,
                  .slot = hop.slot,
                  .from = kSum,
                  .noise_rank = 1});
       step(r[1], Operation::send, 1).slot = hop.slot;
     },
     Fault::contribution_missing, 0, "has the input of rank 1 0 times"},
    {"own_contribution_dropped", "direct", 4,
     [](Schedules& r) {
       std::erase_if(r[2].steps, [](const Step& s) {
         return s.operation == Operation::decode_add && s.slot == kOwnInput;
       });
     },
     Fault::contribution_missing, 0, "output of chunk 2 has the input of rank 2 0 times"},
    {"contribution_added_twice", "direct", 4, [](Schedules& r) { repeat(r[1], Operation::decode_add, 3); },
     Fault::contribution_repeated, 0, "output of chunk 1 has the input of rank 3 2 times"},
    {"own_contribution_added_twice", "tree", 7,
     [](Schedules& r) {
       const std::size_t at = find(r[1], Operation::decode_add, 0);
       insert_at(r[1], at,
                 {.operation = Operation::decode_add, .chunk = r[1].steps[at].chunk, .slot = kOwnInput});
     },
     Fault::contribution_repeated, 0, "has the input of rank 1 2 times"},
    {"sum_encoded_twice", "direct", 4,
     [](Schedules& r) {
       Step again = sum_encode(r[0]);
       again.slot = r[0].slots++;
       insert_at(r[0], find(r[0], Operation::decode, 0), again);
     },
     Fault::sum_empty, 0, "nothing was added to the sum of chunk 0"},
    {"added_too_late", "direct", 4,
     [](Schedules& r) {
       // The last contribution is added again when the sum has gone.
       r[3].steps.push_back(
           {.operation = Operation::decode_add, .chunk = 3, .slot = step(r[3], Operation::recv, 0).slot});
     },
     Fault::sum_unused, 3, "the sum of chunk 3 is not read"},
    {"input_read_after_output", "one_shot", 4,
     [](Schedules& r) { r[1].steps.push_back({.operation = Operation::decode_add, .slot = kOwnInput}); },
     Fault::input_overwritten, 1, "output is written already"},
    {"output_missing", "tree", 6, [](Schedules& r) { erase(r[0], Operation::decode, 1); },
     Fault::output_missing, 0, "has no output"},
    {"output_written_twice", "ring", 4, [](Schedules& r) { repeat(r[0], Operation::decode, 3); },
     Fault::output_rewritten, 0, "chunk 1 has its output"},

    // Identity of the replicas
    {"owner_keeps_its_sum", "direct", 4,
     [](Schedules& r) {
       erase(r[2], Operation::decode, 0);
       insert_at(r[2], find(r[2], Operation::decode_add, 3) + 1,
                 {.operation = Operation::decode, .chunk = 2, .slot = kSum});
     },
     Fault::replicas_differ, 2, "output of chunk 2 is a sum of 4 terms"},
    {"owner_keeps_its_sum_in_a_ring", "ring", 2,
     [](Schedules& r) {
       // Adds what the hop adds, and stores that instead of its own bytes.
       const Step hop = step(r[1], Operation::hop, 0);
       step(r[1], Operation::decode, 0).slot = kSum;
       insert_at(r[1], find(r[1], Operation::decode, 0),
                 {.operation = Operation::decode_add, .chunk = 1, .slot = kOwnInput});
       insert_at(r[1], find(r[1], Operation::decode_add, 0),
                 {.operation = Operation::decode_add, .chunk = 1, .slot = hop.from});
     },
     Fault::replicas_differ, 1, "output of chunk 1 is a sum of 2 terms"},
    {"own_value_not_rounded", "recursive_doubling", 4,
     [](Schedules& r) { step(r[0], Operation::decode_add, 0).slot = kOwnInput; }, Fault::replicas_differ, -1,
     "is a sum of 2 terms"},
    {"own_contribution_not_rounded", "one_shot", 4,
     [](Schedules& r) { step(r[3], Operation::decode_add, 3).slot = kOwnInput; }, Fault::replicas_differ, 3,
     "is a sum of 4 terms"},
    {"halves_swapped", "recursive_doubling", 8,
     [](Schedules& r) {
       std::swap(step(r[6], Operation::decode_add, 4), step(r[6], Operation::decode_add, 5));
     },
     Fault::replicas_differ, 6, "and on rank 0"},
    {"halves_swapped_for_an_extra_rank", "recursive_doubling", 5,
     [](Schedules& r) {
       std::swap(step(r[0], Operation::send, 2).slot, step(r[0], Operation::send, 3).slot);
     },
     Fault::replicas_differ, 1, "and on rank 0"},
    {"order_swapped_on_one_rank", "one_shot", 5,
     [](Schedules& r) {
       std::swap(step(r[4], Operation::decode_add, 0), step(r[4], Operation::decode_add, 1));
     },
     Fault::replicas_differ, 4, "and on rank 0"},
    {"noise_of_the_wrong_rank", "recursive_doubling", 4,
     [](Schedules& r) { sum_encode(r[3]).noise_rank = 3; }, Fault::replicas_differ, -1, "and on rank 0"},
    {"forwarder_reencodes", "ring", 4,
     [](Schedules& r) { reencode_instead_of_forwarding(r[1], ErrorKept::charge); }, Fault::replicas_differ,
     -1, "the bytes that rank 1"},

    // Residuals and noise
    {"forwarder_reencodes_with_its_residual", "ring", 4,
     [](Schedules& r) { reencode_instead_of_forwarding(r[1], ErrorKept::add); }, Fault::residual_reused, 1,
     "was added before"},
    {"error_kept_twice", "recursive_doubling", 4,
     [](Schedules& r) { sum_encode(r[1]).error = ErrorKept::charge; }, Fault::error_kept_twice, 1,
     "rank 0, step 5 keeps the error of this value too"},
    {"error_kept_by_nobody", "recursive_doubling", 4,
     [](Schedules& r) { sum_encode(r[2]).error = ErrorKept::none; }, Fault::error_dropped, 2,
     "no rank keeps the error"},
    {"error_of_the_last_encode_dropped", "direct", 4,
     [](Schedules& r) { sum_encode(r[1]).error = ErrorKept::none; }, Fault::error_dropped, 1,
     "no rank keeps the error"},
    {"residual_added_in_two_rounds", "recursive_doubling", 4,
     [](Schedules& r) { sum_encode(r[0]).error = ErrorKept::add; }, Fault::residual_reused, 0,
     "was added before"},
    {"residual_never_fed_back", "direct", 4, [](Schedules& r) { sum_encode(r[3]).error = ErrorKept::charge; },
     Fault::residual_unused, 3, "keeps an error and is never added"},
    {"noise_of_an_earlier_round", "recursive_doubling", 4,
     [](Schedules& r) {
       for (Schedule& schedule : r) sum_encode(schedule).noise_rank -= 4;
     },
     Fault::noise_shared, -1, "with the same random bits"},

    // Levels. 1 + 3 ranks: rank 0 is a node, ranks 1 to 3 are another; chunks 0, 2 and 4 end at rank 0.
    {"inner_codec_between_nodes", "hierarchical", 4,
     [](Schedules& r) { step(r[0], Operation::encode, 0).level = 0; }, Fault::level_mismatch, 1,
     "rank 0 sends bytes of level 0, and level 1 is due", "1+3"},
    {"outer_codec_inside_a_node", "hierarchical", 4,
     [](Schedules& r) { step(r[2], Operation::encode, 0).level = 1; }, Fault::level_mismatch, 1,
     "rank 2 sends bytes of level 1, and level 0 is due", "1+3"},
    {"decoded_with_the_codec_of_another_level", "hierarchical", 4,
     [](Schedules& r) { step(r[3], Operation::recv, 0).level = 1; }, Fault::level_mismatch, 3,
     "sends bytes of level 0, and level 1 is due", "1+3"},
    {"result_encoded_again_inside_the_node", "hierarchical", 4,
     [](Schedules& r) {
       // Rank 2 leads chunk 2, whose result comes from rank 0, and encodes it anew for its node.
       const std::uint32_t received = step(r[2], Operation::recv, 5).slot;
       const std::uint32_t again = r[2].slots++;
       const std::size_t at = find(r[2], Operation::decode, 0);
       for (std::size_t i = at; i < r[2].steps.size(); ++i) {
         Step& later = r[2].steps[i];
         if (later.operation == Operation::send && later.slot == received) later.slot = again;
       }
       insert_at(r[2], at,
                 {.operation = Operation::encode,
                  .error = ErrorKept::charge,
                  .level = 1,
                  .chunk = 2,
                  .slot = again,
                  .from = kSum,
                  .noise_rank = 9});
       insert_at(r[2], at, {.operation = Operation::decode_add, .chunk = 2, .slot = received});
     },
     Fault::replicas_differ, -1, "output of chunk 2 is the bytes that rank 2", "1+3"},
    {"node_sum_without_a_member", "hierarchical", 4,
     [](Schedules& r) { erase(r[2], Operation::decode_add, 0); }, Fault::slot_unused, 2, "nothing reads",
     "1+3"},
    {"node_sum_sent_raw_and_added_again", "hierarchical", 4,
     [](Schedules& r) { repeat(r[0], Operation::decode_add, 1); }, Fault::contribution_repeated, 0,
     "output of chunk 0 has the input of rank 1 2 times", "1+3"},
    {"leader_without_its_own_input", "hierarchical", 4,
     [](Schedules& r) {
       std::erase_if(r[3].steps, [](const Step& s) {
         return s.operation == Operation::decode_add && s.slot == kOwnInput && s.chunk == 4;
       });
     },
     Fault::contribution_missing, 0, "output of chunk 4 has the input of rank 3 0 times", "1+3"},
    {"error_of_the_outer_level_dropped", "hierarchical", 4,
     [](Schedules& r) {
       for (Step& s : r[2].steps) {
         if (s.operation == Operation::encode && s.chunk == 2) s.error = ErrorKept::none;
       }
     },
     Fault::error_dropped, 2, "no rank keeps the error", "1+3"},
    {"owner_keeps_its_sum_of_nodes", "hierarchical", 4,
     [](Schedules& r) {
       // The same terms once more, stored as they are.
       const Step own = step(r[0], Operation::decode_add, 0);
       const Step other = step(r[0], Operation::decode_add, 1);
       std::erase_if(r[0].steps,
                     [](const Step& s) { return s.operation == Operation::decode && s.chunk == 0; });
       r[0].steps.push_back(own);
       r[0].steps.push_back(other);
       r[0].steps.push_back({.operation = Operation::decode, .chunk = 0, .slot = kSum});
     },
     Fault::replicas_differ, 1, "and on rank 0 a sum of 2 terms", "1+3"},

    // Form
    {"chunk_out_of_range", "direct", 4, [](Schedules& r) { step(r[1], Operation::encode, 0).chunk = 4; },
     Fault::malformed, 1, "there are 4 chunks"},
    {"slot_out_of_range", "ring", 4, [](Schedules& r) { step(r[2], Operation::hop, 1).from = 99; },
     Fault::malformed, 2, "no such slot"},
    {"send_of_the_own_input", "ring", 4,
     [](Schedules& r) { step(r[2], Operation::send, 0).slot = kOwnInput; }, Fault::malformed, 2,
     "no such slot"},
    {"peer_is_itself", "tree", 4, [](Schedules& r) { step(r[3], Operation::send, 0).peer = 3; },
     Fault::malformed, 3, "cannot be its peer"},
    {"peer_out_of_range", "tree", 4, [](Schedules& r) { step(r[3], Operation::recv, 0).peer = -1; },
     Fault::malformed, 3, "cannot be its peer"},
    {"no_noise", "one_shot", 4, [](Schedules& r) { step(r[0], Operation::encode, 0).noise_rank = -1; },
     Fault::malformed, 0, "no random bits"},
    {"unknown_operation", "one_shot", 4,
     [](Schedules& r) { r[2].steps[0].operation = static_cast<Operation>(17); }, Fault::malformed, 2,
     "unknown operation"},
    {"rank_of_another_world", "ring", 4, [](Schedules& r) { r[3] = find_algorithm("ring")->build(3, 5); },
     Fault::malformed, 3, "is the schedule of rank 3 of 5"},
};

class PlantedFault : public testing::TestWithParam<Planted> {};

TEST_P(PlantedFault, IsCaughtAndNamed) {
  const Planted& planted = GetParam();
  const Topology topology =
      planted.topology == nullptr ? planted.world : test::topology(planted.topology, planted.world);
  Schedules schedules = build_all(*find_algorithm(planted.algorithm), topology);
  ASSERT_TRUE(verify(schedules).ok());
  planted.plant(schedules);
  const Report report = verify(schedules);
  ASSERT_FALSE(report.ok());
  const Finding& first = report.findings.front();
  EXPECT_EQ(fault_name(first.fault), fault_name(planted.fault)) << first.text;
  if (planted.rank >= 0) {
    EXPECT_EQ(first.place.rank, planted.rank) << first.text;
  }
  EXPECT_THAT(first.text, testing::StartsWith(fault_name(planted.fault)));
  EXPECT_THAT(first.text, testing::HasSubstr(planted.text));
  EXPECT_EQ(report.status().code(), ErrorCode::internal);
  EXPECT_THAT(report.status().text(), testing::HasSubstr(first.text));
}

INSTANTIATE_TEST_SUITE_P(All, PlantedFault, testing::ValuesIn(kPlanted),
                         [](const auto& tested) { return std::string(tested.param.name); });

// The claims of a description are checked against what its schedules contain.
Schedule build_in_another_order(std::int32_t rank, const Topology& topology) {
  Schedule schedule = find_algorithm("direct")->build(rank, topology);
  std::swap(step(schedule, Operation::decode_add, 0), step(schedule, Operation::decode_add, 1));
  return schedule;
}

TEST(PlantedClaim, OrderIsNotRankOrder) {
  AlgorithmDesc algorithm = *find_algorithm("direct");
  algorithm.build = build_in_another_order;
  const Report report = verify(algorithm, 4);
  ASSERT_TRUE(report.has(Fault::wrong_order_claim));
  EXPECT_EQ(report.findings.size(), 1u);
  algorithm.rank_order = false;
  EXPECT_TRUE(verify(algorithm, 4).ok());
}

TEST(PlantedClaim, EncodesAndChunksSentAreCounted) {
  AlgorithmDesc algorithm = *find_algorithm("tree");
  algorithm.encodes = [](const Topology&) { return 2u; };
  algorithm.chunks_sent = [](const Topology&) { return 5u; };
  const Report report = verify(algorithm, 16);
  ASSERT_EQ(report.findings.size(), 2u);
  EXPECT_EQ(report.findings[0].text, "wrong_encodes_claim: tree in a world of 16 says 2, and it is 5");
  EXPECT_EQ(report.findings[1].text, "wrong_chunks_sent_claim: tree in a world of 16 says 5, and it is 4");
}

TEST(PlantedClaim, EncodesOfEachLevelAreCounted) {
  AlgorithmDesc algorithm = *find_algorithm("hierarchical");
  algorithm.encodes_at = [](const Topology&, std::uint32_t level) { return level < 2 ? 1u : 0u; };
  const Report report = verify(algorithm, test::topology("2x2", 4));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].text, "wrong_encodes_claim: hierarchical in a world of 4 says 1, and it is 2");
  // Without the claim, everything is of level 0.
  algorithm.encodes_at = nullptr;
  EXPECT_TRUE(verify(algorithm, test::topology("2x2", 4)).has(Fault::wrong_encodes_claim));
}

TEST(PlantedClaim, NoScheduleAtAll) { EXPECT_TRUE(verify(Schedules{}).has(Fault::malformed)); }

// Numbers that the verifier would have to allocate for.
TEST(PlantedClaim, NoScheduleIsLargerThanItsSteps) {
  Schedules chunks = build_all(*find_algorithm("direct"), 2);
  for (Schedule& schedule : chunks) schedule.chunks = 0xffffffff;
  EXPECT_TRUE(verify(chunks).has(Fault::malformed));
  Schedules slots = build_all(*find_algorithm("direct"), 2);
  slots[1].slots = 0xffffffff;
  EXPECT_TRUE(verify(slots).has(Fault::malformed));
}

// What is only different, not wrong, must pass: else the faults above prove little.
TEST(HarmlessChange, PassesTheVerifier) {
  Schedules direct = build_all(*find_algorithm("direct"), 4);
  std::swap(step(direct[0], Operation::decode, 1), step(direct[0], Operation::decode, 2));
  std::swap(step(direct[1], Operation::send, 3), step(direct[1], Operation::recv, 4));
  std::swap(direct[2].steps[0], direct[2].steps[1]);
  EXPECT_TRUE(verify(direct).ok()) << verify(direct).status().text();

  Schedules tree = build_all(*find_algorithm("tree"), 7);  // an inner node adds in another order
  std::swap(step(tree[3], Operation::decode_add, 0), step(tree[3], Operation::decode_add, 2));
  EXPECT_TRUE(verify(tree).ok()) << verify(tree).status().text();
}

}  // namespace
}  // namespace ferrule::collectives
