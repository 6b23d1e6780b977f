// The engine and what it stands on, where they can go wrong.
#include <gmock/gmock.h>

#include "bench/sim/codec_rates.hpp"
#include "bench/sim/questions.hpp"

namespace ferrule::sim {
namespace {

using collectives::Operation;
using collectives::Schedule;
using ::testing::HasSubstr;

TEST(LinkModel, OneMessageAloneIsAlphaBeta) {
  const LinkRate link{500, 2};
  Port out{link.ns_per_byte};
  Port in{link.ns_per_byte};
  Path path{.latency_ns = link.latency_ns};
  const double left = leave(out, 1000, 100);
  EXPECT_EQ(left, 1200);
  EXPECT_EQ(receive(in, cross(path, left, 200, 100), 100), 1000 + link.alone_ns(100));
}

TEST(LinkModel, IncastIsServedOneByOne) {
  Port in{2};
  EXPECT_EQ(receive(in, {1000, 200}, 100), 1000);
  EXPECT_EQ(receive(in, {1000, 200}, 100), 1200);
  EXPECT_EQ(receive(in, {1150, 200}, 100), 1400);
  EXPECT_EQ(receive(in, {9000, 200}, 100), 9000) << "an idle port costs nothing";
}

TEST(LinkModel, TheSlowerStageDecides) {
  Port slow{20};
  EXPECT_EQ(receive(slow, {1000, 200}, 100), 800 + 2000);
  Path pipe{.latency_ns = 5, .ns_per_byte = 10, .serial = true};
  EXPECT_EQ(cross(pipe, 200, 200, 100).arrives_ns, 1005);
  EXPECT_EQ(cross(pipe, 400, 200, 100).arrives_ns, 2005) << "it waits for the one before";
}

TEST(Levels, TheInnermostThatJoinsBoth) {
  Levels levels = nodes_of(4);
  levels.levels.insert(levels.levels.begin() + 1, {8, {}, "rack"});
  ASSERT_TRUE(levels.check().ok());
  EXPECT_EQ(levels.between(0, 3), 0u);
  EXPECT_EQ(levels.between(3, 4), 1u);
  EXPECT_EQ(levels.between(7, 8), 2u);
  EXPECT_EQ(levels.period(), 8);
  levels.shared_ports = true;
  EXPECT_EQ(levels.port_owner(7, 0), 7);
  EXPECT_EQ(levels.port_owner(7, 1), 1);
  EXPECT_EQ(levels.port_owner(7, 2), 0);
}

TEST(Levels, MistakesAreNamed) {
  Levels levels = flat();
  levels.shared_ports = true;
  EXPECT_THAT(levels.check().text(), HasSubstr("only where there are nodes"));
  levels = nodes_of(4);
  levels.levels.insert(levels.levels.begin() + 1, {6, {}, "rack"});
  EXPECT_THAT(levels.check().text(), HasSubstr("a group of 6"));
  EXPECT_FALSE(Levels{}.check().ok());
}

TEST(Place, StragglersMustExist) {
  Stragglers stragglers;
  stragglers.late = {{4, 1}};
  EXPECT_THAT(place_of(4, flat(), stragglers).status().text(), HasSubstr("ranks 0 to 3"));
  stragglers.late.clear();
  stragglers.slow_pairs = {{2, 2, {}}};
  EXPECT_THAT(place_of(4, flat(), stragglers).status().text(), HasSubstr("no link to itself"));
}

Schedule schedule_of_two(std::int32_t rank, std::vector<collectives::Step> steps) {
  Schedule schedule;
  schedule.rank = rank;
  schedule.world = 2;
  schedule.slots = 1;
  schedule.steps = std::move(steps);
  return schedule;
}

// A schedule that waits for a message that is never sent, and one that sends what nobody receives.
Network network_of(const std::vector<Schedule>& schedules, Status& status) {
  const Codecs codecs{level_codec("none")};
  auto network = full_network(place(static_cast<std::int32_t>(schedules.size())), [&](std::int32_t rank) {
    return timed_program(schedules[static_cast<std::size_t>(rank)], codecs);
  });
  status = network.status();
  return network.ok() ? std::move(network).value() : Network{};
}

TEST(Engine, WaitingForEverIsAnError) {
  const Schedule waits =
      schedule_of_two(0, {{.operation = Operation::recv, .peer = 1}, {.operation = Operation::decode}});
  Status status;
  const Network network = network_of({waits, schedule_of_two(1, {})}, status);
  ASSERT_TRUE(status.ok()) << status.text();
  const Codecs codecs{level_codec("none")};
  const Cut cut(codecs, {100, DType::f32}, 1, 1 << 20);
  EXPECT_THAT(simulate_events(network, cut, {cut.slices()}).status().text(),
              HasSubstr("rank 0 waits for ever"));
}

TEST(Engine, AMessageThatNobodyReceivesIsAnError) {
  const Schedule sends =
      schedule_of_two(0, {{.operation = Operation::encode}, {.operation = Operation::send, .peer = 1}});
  Status status;
  network_of({sends, schedule_of_two(1, {})}, status);
  EXPECT_THAT(status.text(), HasSubstr("rank 0 sends message 0 of a slice to rank 1"));
}

TEST(Program, BrokenSchedulesAreErrors) {
  const Codecs codecs{level_codec("none")};
  const auto text = [&](collectives::Step step) {
    return timed_program(schedule_of_two(0, {step}), codecs).status().text();
  };
  EXPECT_THAT(text({.operation = Operation::encode, .chunk = 1}), HasSubstr("no such chunk"));
  EXPECT_THAT(text({.operation = Operation::encode, .slot = 1}), HasSubstr("no such slot"));
  EXPECT_THAT(text({.operation = Operation::send, .slot = collectives::kSum, .peer = 1}),
              HasSubstr("no such slot"));
  EXPECT_THAT(text({.operation = Operation::hop, .from = 7}), HasSubstr("no such slot"));
}

TEST(Cut, CoversTheTensorInWholeBlocks) {
  for (const char* text : {"none", "int4", "bf16"}) {
    const Codecs codecs{level_codec(text)};
    for (const std::size_t count : {0u, 1u, 127u, 128u, 1000u, 99'999u}) {
      const Cut cut(codecs, {count, DType::f32}, 7, 4096);
      std::size_t sum = 0;
      for (std::uint32_t chunk = 0; chunk < 7; ++chunk) {
        std::size_t inside = 0;
        for (std::uint32_t slice = 0; slice < cut.slices(); ++slice) {
          const std::size_t elements = cut.elements(chunk, slice);
          EXPECT_LE(cut.wire_bytes(elements, 0), 4096);
          inside += elements;
        }
        EXPECT_EQ(inside, cut.elements(chunk));
        sum += inside;
      }
      EXPECT_EQ(sum, count) << text;
      EXPECT_GE(cut.even_count(), count);
    }
  }
}

TEST(CodecRates, AreMeasured) {
  const auto int4 = level_codec("int4");
  const CodecRates rates = measure_rates(*int4.codec, DType::f32);
  for (const double rate : {rates.encode, rates.decode, rates.add, rates.hop}) {
    EXPECT_GT(rate, 0);
    EXPECT_LT(rate, 1e4);
  }
}

}  // namespace
}  // namespace ferrule::sim
