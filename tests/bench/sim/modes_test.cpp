// One rank for all that behave alike: the same as all of them.
#include <gmock/gmock.h>

#include <string_view>

#include "bench/sim/questions.hpp"
#include "bench/sim/schedule_of.hpp"

namespace ferrule::sim {
namespace {

using ::testing::HasSubstr;

struct Setting {
  std::string algorithm;
  std::int32_t world;
  Levels levels;
  std::string codec;
};

std::string describe(const Setting& s) {
  return s.algorithm + " of " + std::to_string(s.world) + " " + s.codec + " levels " +
         std::to_string(s.levels.levels.size());
}

/// Equal chunks in several slices; costs that are no round numbers, so that nothing ties by accident.
Question question_of(const Setting& s) {
  Question q = question(s.algorithm, place(s.world, s.levels), 0);
  q.codecs = {level_codec(s.codec, {0.31, 0.17, 0.13, 0.41})};
  const std::size_t chunks = schedule_of(*q.algorithm, 0, q.place).chunks;
  q.tensor.count = chunks * 128 * 6;
  q.slice_bytes = q.codecs[0].codec->encoded_bytes(256, DType::f32);
  return q;
}

Outcome run(const Question& q, const Network& network) {
  const Cut cut(q.codecs, q.tensor, schedule_of(*q.algorithm, 0, q.place).chunks, q.slice_bytes);
  EXPECT_EQ(cut.slices(), 3u);
  EXPECT_EQ(cut.even_count(), q.tensor.count);
  auto outcome = simulate_events(network, cut, {cut.slices(), 2, q.header_bytes, 100});
  EXPECT_TRUE(outcome.ok()) << outcome.status().text();
  return outcome.ok() ? *outcome : Outcome{};
}

ProgramOf programs(const Question& q) {
  return
      [&q](std::int32_t rank) { return timed_program(schedule_of(*q.algorithm, rank, q.place), q.codecs); };
}

void expect_same(const Outcome& a, const Outcome& b, double tolerance) {
  EXPECT_NEAR(a.time_ns, b.time_ns, tolerance * b.time_ns);
  EXPECT_NEAR(a.most_busy_ns, b.most_busy_ns, 1e-9 * b.most_busy_ns);
  EXPECT_DOUBLE_EQ(a.most_sent_bytes, b.most_sent_bytes);
  for (std::size_t i = 0; i < b.level_bytes.size(); ++i) EXPECT_DOUBLE_EQ(a.level_bytes[i], b.level_bytes[i]);
}

std::vector<Setting> settings() {
  std::vector<Setting> all;
  for (const collectives::AlgorithmDesc& algorithm : collectives::algorithms()) {
    for (const std::int32_t world : {2, 3, 4, 6, 8, 12, 16, 32}) {
      for (const char* codec : {"none", "int4"}) {
        all.push_back({std::string(algorithm.name), world, flat(), codec});
        if (world % 4 == 0) all.push_back({std::string(algorithm.name), world, nodes_of(4), codec});
        Levels shared = nodes_of(2);
        shared.shared_ports = true;
        if (world % 2 == 0) all.push_back({std::string(algorithm.name), world, shared, codec});
      }
    }
  }
  return all;
}

TEST(Modes, RotationIsTheFullSimulation) {
  int exact = 0;
  int near = 0;
  for (const Setting& setting : settings()) {
    SCOPED_TRACE(describe(setting));
    const Question q = question_of(setting);
    Likeness likeness = Likeness::none;
    const auto rotated = rotation_network(q.place, programs(q), likeness);
    ASSERT_TRUE(rotated.ok()) << rotated.status().text();
    if (likeness == Likeness::none) continue;
    ++(likeness == Likeness::exact ? exact : near);
    EXPECT_EQ(rotated->walkers.size(), static_cast<std::size_t>(setting.levels.period()));
    const auto full = full_network(q.place, programs(q));
    ASSERT_TRUE(full.ok());
    // Bit for bit, but for who is an approximation and says so.
    expect_same(run(q, *rotated), run(q, *full), likeness == Likeness::exact ? 0 : 0.1);
  }
  EXPECT_GE(exact, 3 * 2 * 8) << "direct, ring and one_shot rotate in every world";
  EXPECT_GE(near, 1) << "hierarchical does nearly";
}

TEST(Modes, ClassesAreTheFullSimulation) {
  int smaller = 0;
  for (const Setting& setting : settings()) {
    if (setting.levels.shared_ports) continue;
    SCOPED_TRACE(describe(setting));
    const Question q = question_of(setting);
    const auto full = full_network(q.place, programs(q));
    ASSERT_TRUE(full.ok());
    const Cut cut(q.codecs, q.tensor, schedule_of(*q.algorithm, 0, q.place).chunks, q.slice_bytes);
    const Network small = merged(*full, cut);
    if (small.walkers.size() < full->walkers.size()) ++smaller;
    expect_same(run(q, small), run(q, *full), 0);
  }
  EXPECT_GE(smaller, 60);
}

TEST(Modes, RecursiveDoublingOfAPowerOfTwoIsOneClass) {
  const Question q = question_of({"recursive_doubling", 32, flat(), "int4"});
  const auto full = full_network(q.place, programs(q));
  const Cut cut(q.codecs, q.tensor, 1, q.slice_bytes);
  EXPECT_EQ(merged(*full, cut).walkers.size(), 1u);
}

TEST(Modes, ClassesTellStragglersApart) {
  Stragglers stragglers;
  stragglers.late = {{3, 7e5}};
  stragglers.slow_pairs = {{4, 5, {1e5, 80}}};
  Question q = question("recursive_doubling", place(64, flat(), stragglers), 4096);
  q.codecs = {level_codec("int4", {0.31, 0.17, 0.13, 0.41})};
  const auto full = full_network(q.place, programs(q));
  const Cut cut(q.codecs, q.tensor, 1, 1 << 10);
  const Pace pace{cut.slices(), 4, 64, 0};
  const auto all = simulate_events(*full, cut, pace);
  const auto few = simulate_events(merged(*full, cut), cut, pace);
  ASSERT_TRUE(all.ok() && few.ok());
  EXPECT_EQ(all->time_ns, few->time_ns);
  EXPECT_EQ(all->first_done_ns, few->first_done_ns);
}

// The rest of many slices at the steady rate.
TEST(Modes, ExtrapolationIsCloseToTheFullSimulation) {
  for (const char* algorithm : {"tree", "recursive_doubling", "ring", "direct"}) {
    Question q = question(algorithm, place(8), std::size_t{1} << 22);
    q.codecs = {level_codec("int4", {0.31, 0.17, 0.13, 0.41})};
    q.slice_bytes = 1 << 12;
    q.slices_in_flight = 4;
    q.only_full = true;
    const Answer all = answer(q);
    ASSERT_EQ(all.simulated_slices, all.slices);
    q.only_full = false;
    q.most_messages = all.outcome.messages / 3;
    Answer some = answer(q);
    if (some.simulated_slices == some.slices) {  // few representatives: they need a tighter limit
      q.most_messages = some.outcome.messages / 3;
      some = answer(q);
    }
    EXPECT_LT(some.simulated_slices, some.slices) << algorithm;
    EXPECT_LE(some.outcome.messages, q.most_messages) << algorithm;
    // A tree's slices overtake each other differently for long.
    const double tolerance = std::string_view(algorithm) == "tree" ? 0.1 : 0.01;
    EXPECT_NEAR(some.outcome.time_ns / all.outcome.time_ns, 1, tolerance) << algorithm;
    EXPECT_NEAR(some.outcome.level_bytes[0] / all.outcome.level_bytes[0], 1, 1e-3) << algorithm;
  }
}

TEST(Modes, ManyRanksBecomeFew) {
  for (const char* algorithm : {"direct", "ring", "one_shot"}) {
    const Answer result = answer(question(algorithm, place(4096), std::size_t{1} << 20));
    EXPECT_EQ(result.mode, Mode::rotation);
    EXPECT_EQ(result.walkers, 1u);
  }
  const Answer doubled = answer(question("recursive_doubling", place(65536), 1000));
  EXPECT_EQ(doubled.mode, Mode::classes);
  EXPECT_EQ(doubled.walkers, 1u);
  const Answer tree = answer(question("tree", place(65536), 1000));
  EXPECT_EQ(tree.mode, Mode::full);
  const Answer nodes = answer(question("hierarchical", place(2048, nodes_of(8)), std::size_t{1} << 20));
  EXPECT_EQ(nodes.mode, Mode::near_rotation);
  EXPECT_EQ(nodes.walkers, 8u);
}

TEST(Modes, UnevenChunksAreEnlargedALittleOrRefused) {
  Question q = question("ring", place(4096), (std::size_t{1} << 20) - 3);
  const Answer result = answer(q);
  EXPECT_EQ(result.mode, Mode::rotation);
  EXPECT_GT(result.padding, 0);
  EXPECT_LT(result.padding, 1e-4);
  q.tensor.count = 100'000;  // most ranks own nothing
  q.codecs = {level_codec("int4")};
  const auto refused = simulate(q);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.status().code(), ErrorCode::unsupported);
  EXPECT_THAT(refused.status().text(), HasSubstr("equal chunks has 524288 elements"));
}

TEST(Modes, WhatIsTooLargeIsRefusedWithAWayOut) {
  Question q = question("direct", place(4096), std::size_t{1} << 20);
  q.only_full = true;
  EXPECT_THAT(simulate(q).status().text(), HasSubstr("every rank needs fewer ranks"));
  q = question("direct", place(64), std::size_t{1} << 20);
  q.only_full = true;
  q.most_messages = 100;
  EXPECT_THAT(simulate(q).status().text(), HasSubstr("raise --max-messages"));
  Stragglers late;
  late.late = {{0, 1}};
  EXPECT_THAT(simulate(question("ring", place(4096, flat(), late), std::size_t{1} << 20)).status().text(),
              HasSubstr("with stragglers"));
}

}  // namespace
}  // namespace ferrule::sim
