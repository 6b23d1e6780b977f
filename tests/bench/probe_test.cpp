#include <gmock/gmock.h>

#include <limits>
#include <set>

#include "bench/probe/json_report.hpp"
#include "bench/probe/options.hpp"
#include "bench/probe/report.hpp"
#include "bench/probe/tournament.hpp"
#include "bench/schema_check.hpp"

namespace ferrule::probe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::StartsWith;

TEST(Tournament, EveryPairMeetsOnceAndNobodyIsInTwoPairs) {
  for (std::int32_t world = 2; world <= 17; ++world) {
    std::set<std::pair<std::int32_t, std::int32_t>> met;
    for (std::int32_t round = 0; round < rounds_of(world); ++round) {
      for (std::int32_t rank = 0; rank < world; ++rank) {
        const std::int32_t peer = opponent(rank, round, world);
        if (peer < 0) continue;
        ASSERT_LT(peer, world);
        EXPECT_NE(peer, rank);
        EXPECT_EQ(opponent(peer, round, world), rank) << "round " << round << " of " << world;
        EXPECT_TRUE(met.insert({rank, peer}).second) << rank << " and " << peer << " again, of " << world;
      }
    }
    EXPECT_EQ(met.size(), static_cast<std::size_t>(world) * static_cast<std::size_t>(world - 1));
  }
}

TEST(Tournament, TakesAsFewRoundsAsItCan) {
  EXPECT_EQ(rounds_of(1), 0);
  EXPECT_EQ(rounds_of(2), 1);
  EXPECT_EQ(rounds_of(3), 3);
  EXPECT_EQ(rounds_of(8), 7);
}

ParsedOptions parse(std::vector<const char*> words) {
  words.insert(words.begin(), "ferrule-probe");
  return parse_options(static_cast<int>(words.size()), words.data());
}

TEST(ProbeOptions, CodecsBecomeCanonicalAndDoublesGo) {
  const ParsedOptions parsed = parse({"--codec", "int4", "--codec", "auto:int4", "--codec", "int8:block=32"});
  ASSERT_FALSE(parsed.finished) << parsed.text;
  ASSERT_EQ(parsed.options.codecs.size(), 2u);
  EXPECT_THAT(parsed.options.codecs[0], StartsWith("int4"));
  EXPECT_THAT(parsed.options.codecs[1], HasSubstr("block=32"));
}

TEST(ProbeOptions, MistakesAreNamed) {
  const auto refusal = [](std::vector<const char*> words) {
    const ParsedOptions parsed = parse(std::move(words));
    EXPECT_TRUE(parsed.finished);
    EXPECT_EQ(parsed.exit_code, 2);
    EXPECT_THAT(parsed.text, StartsWith("ferrule-probe: "));
    return parsed.text;
  };
  EXPECT_THAT(refusal({"--codec", "int99"}), HasSubstr("int99"));
  EXPECT_THAT(refusal({"--codec", "none"}), HasSubstr("compresses nothing"));
  EXPECT_THAT(refusal({"--codec", "int4:block"}), HasSubstr("int4:block"));
  EXPECT_THAT(refusal({"--transport", "pigeon"}), HasSubstr("pigeon"));
  EXPECT_THAT(refusal({"--link", "fast"}), HasSubstr("fast"));
  EXPECT_THAT(refusal({"--ranks", "1"}), HasSubstr("ranks"));
  EXPECT_THAT(refusal({"--ranks", "many"}), HasSubstr("ranks"));
  EXPECT_THAT(refusal({"--timeout", "nan"}), HasSubstr("timeout"));
  EXPECT_THAT(refusal({"--timeout", "-1"}), HasSubstr("timeout"));
  EXPECT_THAT(refusal({"--save", "/nonexistent/tuning"}), HasSubstr("/nonexistent/tuning"));
  EXPECT_THAT(refusal({"--save", "/tmp"}), HasSubstr("/tmp"));
  EXPECT_THAT(refusal({"--json", "/nonexistent/a.json"}), HasSubstr("/nonexistent/a.json"));
  EXPECT_THAT(refusal({"word"}), HasSubstr("word"));
}

/// Two ranks whose figures are easy to tell apart.
Findings example() {
  Findings findings;
  findings.ranks = {{"left", "id", 11, "10.0.0.1"}, {"right", "id2", 12, "10.0.0.2"}};
  findings.transport = "ucx";
  findings.latency_s = {0, 21e-6, 22e-6, 0};
  findings.bytes_per_s = {0, 1.25e9, 2.5e9, 0};
  findings.tuning.link = {20e-6, 1e-6, 0.8e-9};
  findings.tuning.codecs["int4:block=128"] = {2e-9, 1e-9};
  findings.codecs = {{"int4:block=128", {2e-9, 1e-9}, 7.75, 31e9}};
  findings.sizes = {
      {4096, {"none", "one_shot", 1, 1, 25e-6}, {{"none", "one_shot", 1, 1, 25e-6}}},
      {64 << 20, {"none", "direct", 520, 8, 55e-3}, {{"int4:block=128", "direct", 70, 9, 12e-3}}}};
  return findings;
}

TEST(ProbeReport, SaysWhatWasFound) {
  const std::string text = text_report(example());
  EXPECT_THAT(text, HasSubstr("rank 1: host right, pid 12"));
  EXPECT_THAT(text, HasSubstr("\n         0        -       21\n         1       22        -\n"));
  EXPECT_THAT(text, HasSubstr("\n         0        -     1.25\n         1      2.5        -\n"));
  EXPECT_THAT(text, ::testing::ContainsRegex("int4:block=128 +2 +4 +7.75 +31 Gbit/s"));
  EXPECT_THAT(text, HasSubstr("Link model (all ranks at once): 20 us latency"));
  EXPECT_THAT(text, ::testing::ContainsRegex("4 KiB +one_shot +1/1 +25 +raw"));
  EXPECT_THAT(text, ::testing::ContainsRegex("64 MiB +direct +8/520 +55000 +yes direct 12000 us"));
}

TEST(ProbeReport, JsonFitsItsSchema) {
  const auto schema = bench::read_json(FERRULE_PROBE_SCHEMA);
  auto report = nlohmann::json::parse(json_report(example(), "ferrule-probe").dump());
  EXPECT_THAT(bench::violations(schema, report), IsEmpty());
  EXPECT_TRUE(report["latency_us"][0][0].is_null());
  EXPECT_DOUBLE_EQ(report["latency_us"][0][1], 21);
  EXPECT_DOUBLE_EQ(report["bandwidth_gbps"][1][0], 2.5);
  EXPECT_EQ(report["choices"][1]["auto"][0]["compresses"], true);
  Findings worthless = example();
  worthless.codecs[0].break_even_bits_per_s = std::numeric_limits<double>::infinity();
  report = nlohmann::json::parse(json_report(worthless, "").dump());
  EXPECT_TRUE(report["codecs"][0]["break_even_gbit"].is_null());
  EXPECT_THAT(bench::violations(schema, report), IsEmpty());
}

TEST(ProbeReport, TheTuningFileIsReadBack) {
  const Findings findings = example();
  const auto read = communicator::Tuning::parse(tuning_file(findings));
  ASSERT_TRUE(read.ok()) << read.status().text();
  EXPECT_DOUBLE_EQ(read->link.latency_s, findings.tuning.link.latency_s);
  EXPECT_DOUBLE_EQ(read->link.byte_s, findings.tuning.link.byte_s);
  ASSERT_EQ(read->codecs.size(), 1u);
  EXPECT_DOUBLE_EQ(read->codecs.begin()->second.encode_s, 2e-9);
}

}  // namespace
}  // namespace ferrule::probe
