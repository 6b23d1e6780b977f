// What can be worked out on paper, to 1e-9.
#include <gmock/gmock.h>

#include <bit>
#include <cmath>

#include "bench/sim/questions.hpp"

namespace ferrule::sim {
namespace {

void expect_near(double actual, double expected, const std::string& what) {
  EXPECT_NEAR(actual, expected, 1e-9 * expected) << what;
}

/// alpha + messages * bytes * beta: messages that leave one after the other, and the last one's arrival.
double after(double messages, double bytes) {
  return kLatencyNs + messages * (bytes + kHeaderBytes) * kNsPerByte;
}

constexpr std::size_t kCount = 5040 * 32;  // whole blocks for all worlds below
constexpr double kBytes = 4.0 * kCount;

class EachWorld : public testing::TestWithParam<std::int32_t> {
 protected:
  std::int32_t world() const { return GetParam(); }
  double chunk() const { return kBytes / world(); }
  double time(const std::string& algorithm) const {
    return time_ns(question(algorithm, place(world()), kCount));
  }
  std::int32_t log2_down() const { return std::bit_width(static_cast<std::uint32_t>(world())) - 1; }
  bool power_of_two() const { return std::has_single_bit(static_cast<std::uint32_t>(world())); }
};
INSTANTIATE_TEST_SUITE_P(ClosedForms, EachWorld, testing::Values(2, 3, 4, 5, 6, 7, 8, 12, 16));

TEST_P(EachWorld, Ring) { expect_near(time("ring"), 2 * (world() - 1) * after(1, chunk()), "ring"); }

TEST_P(EachWorld, Direct) { expect_near(time("direct"), 2 * after(world() - 1, chunk()), "direct"); }

TEST_P(EachWorld, OneShot) { expect_near(time("one_shot"), after(world() - 1, kBytes), "one_shot"); }

TEST_P(EachWorld, RecursiveDoubling) {
  const double rounds = log2_down() * after(1, kBytes);
  if (power_of_two()) return expect_near(time("recursive_doubling"), rounds, "recursive_doubling");
  // Pairs fold first and get the two halves of the result last, which is not on every rank's longest path.
  EXPECT_GT(time("recursive_doubling"), rounds);
  EXPECT_LE(time("recursive_doubling"), (1 + 1e-9) * (rounds + after(1, kBytes) + after(2, kBytes)));
}

// Latency alone: messages in a row, as docs/schedules.md has them.
TEST_P(EachWorld, LatencyAlone) {
  const std::pair<const char*, std::int32_t> in_a_row[] = {
      {"direct", 2},
      {"ring", 2 * (world() - 1)},
      {"tree", 2 * log2_down()},
      {"one_shot", 1},
      {"recursive_doubling", power_of_two() ? log2_down() : 0}};
  for (const auto& [algorithm, messages] : in_a_row) {
    const Question q = question(algorithm, place(world(), flat({kLatencyNs, 0})), kCount);
    if (messages != 0) expect_near(time_ns(q), messages * kLatencyNs, algorithm);
  }
}

// No rank sends more than the algorithm says, and one sends that much.
TEST_P(EachWorld, BytesAreThoseOfTheDescription) {
  for (const collectives::AlgorithmDesc& algorithm : collectives::algorithms()) {
    Question q = question(std::string(algorithm.name), place(world()), kCount * 16);
    q.header_bytes = 0;
    const auto chunks = algorithm.build(0, world()).chunks;
    const double expected = 64.0 * kCount / chunks * algorithm.chunks_sent(world());
    expect_near(answer(q).outcome.most_sent_bytes, expected, std::string(algorithm.name));
  }
}

TEST(ClosedForms, TreeOfTwo) {
  expect_near(time_ns(question("tree", place(2), kCount)), 2 * after(1, kBytes / 2), "tree");
}

// Much data in many slices: every link direction of an inner node carries the whole tensor.
TEST(ClosedForms, TreeIsBoundByBandwidth) {
  Question q = question("tree", place(16), std::size_t{1} << 24);
  q.slice_bytes = 1 << 18;
  q.header_bytes = 0;
  const double at_least = 2 * 4.0 * static_cast<double>(q.tensor.count) * kNsPerByte;
  const double time = time_ns(q);
  EXPECT_GE(time, at_least);
  EXPECT_LE(time, 1.25 * at_least);
}

// With one slice after the other (never two in flight) nothing overlaps.
TEST(ClosedForms, RingOfManySlices) {
  Question q = question("ring", place(4), 4 * 11 * 320);
  q.slice_bytes = 4 * 320;
  q.slices_in_flight = 1;
  const Answer result = answer(q);
  ASSERT_EQ(result.slices, 11u);
  expect_near(result.outcome.time_ns, 11 * 6 * after(1, 4 * 320), "ring");
}

TEST(ClosedForms, ManySlicesInFlightHideLatency) {
  Question q = question("direct", place(4, flat({1e6, kNsPerByte})), kCount * 16);
  q.slice_bytes = 64 << 10;
  q.slices_in_flight = 512;
  const double wire_ns = 2 * 3 * 16 * kBytes / 4 * kNsPerByte;
  EXPECT_GT(time_ns(q), wire_ns);
  EXPECT_LT(time_ns(q), wire_ns + 2.2e6 + 0.05 * wire_ns);
}

TEST(ClosedForms, ArithmeticAlone) {
  const CodecRates rates{.encode = 3, .decode = 5, .add = 7, .hop = 11};
  const auto time = [&](const char* algorithm, std::int32_t world) {
    Question q = question(algorithm, place(world, flat({0, 0})), std::size_t{1} << 14);
    q.codecs = {level_codec("int4", rates)};
    return time_ns(q) / (4.0 * (1 << 14));  // a byte of the tensor
  };
  // Encode for the other, sum and encode the own chunk, decode both.
  expect_near(time("direct", 2), (3.0 + 11 + 5 + 5) / 2, "direct of 2");
  expect_near(time("direct", 4), (3 * 3.0 + (3 + 3 * 7) + 4 * 5) / 4, "direct of 4");
  expect_near(time("one_shot", 4), 3.0 + 4 * 7, "one_shot of 4");
  expect_near(time("ring", 4), (3.0 + 3 * 11 + 4 * 5) / 4, "ring of 4");
}

TEST(ClosedForms, RawCopiesAreFree) {
  const CodecRates rates{.encode = 3, .decode = 5, .add = 7, .hop = 11};
  Question q = question("direct", place(2, flat({0, 0})), 1 << 14);
  q.codecs = {level_codec("none", rates)};
  // The input is sent from where it lies, the own result is not copied.
  expect_near(time_ns(q) / (4.0 * (1 << 14)), (11.0 + 5) / 2, "direct of 2");
}

TEST(ClosedForms, SendingCostsTheRank) {
  Question q = question("one_shot", place(5, flat({kLatencyNs, 0})), kCount);
  q.message_cost_ns = 1000;
  expect_near(time_ns(q), 3 * 1000 + kLatencyNs, "the last message is posted after three others");
}

TEST(ClosedForms, ALateRankIsWaitedFor) {
  Stragglers late;
  late.late = {{2, 5e8}};
  const double time = time_ns(question("one_shot", place(4, flat(), late), kCount));
  const double own = after(3, kBytes);
  expect_near(time, 5e8 + own, "one_shot");
}

TEST(ClosedForms, ASlowLinkAndASlowCard) {
  const LinkRate slow{2 * kLatencyNs, 10 * kNsPerByte};
  const double expected = slow.alone_ns(kBytes + kHeaderBytes);
  Stragglers pair;
  pair.slow_pairs = {{1, 0, slow}};
  expect_near(time_ns(question("one_shot", place(2, flat(), pair), kCount)), expected, "pair");
  Stragglers card;
  card.slow_ranks = {{1, slow}};
  expect_near(time_ns(question("one_shot", place(2, flat(), card), kCount)), expected, "card");
  // Of four ranks a slow link carries one message, a slow card three each way.
  expect_near(time_ns(question("one_shot", place(4, flat(), card), kCount)),
              slow.latency_ns + 3 * slow.transfer_ns(kBytes + kHeaderBytes), "card of four");
}

// Two nodes of two share a card each: twice the bytes through it.
TEST(ClosedForms, SharedPorts) {
  Levels levels = nodes_of(2);
  levels.levels[0].link = {0, 0};
  levels.shared_ports = true;
  const double time = time_ns(question("one_shot", place(4, levels), kCount));
  expect_near(time, after(4, kBytes), "four messages leave a node one after the other");
  levels.shared_ports = false;
  // A card each: rank 1 gets two messages at once, each of which left its sender second.
  expect_near(time_ns(question("one_shot", place(4, levels), kCount)), after(3, kBytes), "two a card");
}

TEST(ClosedForms, BytesByLevel) {
  Question q = question("hierarchical", place(8, nodes_of(4)), std::size_t{1} << 16);
  q.codecs = {level_codec("none"), level_codec("int4")};
  q.header_bytes = 0;
  const Outcome outcome = answer(q).outcome;
  const auto bytes = [&](std::size_t level) {
    return static_cast<double>(q.codecs[level].codec->encoded_bytes(q.tensor.count, DType::f32));
  };
  // Inside each node 3/4 of the tensor of each of 4 ranks goes up raw and the encoded result comes down;
  // between nodes each sends half of its sum, and the half that it leads comes back.
  EXPECT_NEAR(outcome.level_bytes[0], 2 * 3 * (bytes(0) + bytes(1)), 1e-6);
  EXPECT_NEAR(outcome.level_bytes[1], 2 * bytes(1), 1e-6);
}

TEST(ClosedForms, NothingTakesNoTime) {
  for (const collectives::AlgorithmDesc& algorithm : collectives::algorithms()) {
    EXPECT_EQ(time_ns(question(std::string(algorithm.name), place(4), 0)), 0);
    EXPECT_EQ(time_ns(question(std::string(algorithm.name), place(1), kCount)), 0);
  }
}

}  // namespace
}  // namespace ferrule::sim
