#include "bench/sim/options.hpp"

#include <gmock/gmock.h>

#include <vector>

#include "bench/sim/report.hpp"
#include "bench/sim/run_cases.hpp"
#include "bench/sim/texts.hpp"

namespace ferrule::sim {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ParsedOptions parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "ferrule-sim");
  return parse_options(static_cast<int>(arguments.size()), arguments.data());
}

std::string mistake(std::vector<const char*> arguments) {
  const ParsedOptions parsed = parse(std::move(arguments));
  EXPECT_TRUE(parsed.finished);
  EXPECT_EQ(parsed.exit_code, 2);
  return parsed.text;
}

TEST(SimOptions, Everything) {
  const ParsedOptions parsed = parse({"--ranks",   "2-20",      "--ranks", "7",           "-b",
                                      "1K",        "-e",        "4K",      "-f",          "2",
                                      "--codec",   "none/int4", "--level", "2:1tbit,1us", "--link",
                                      "1gbit,1ms", "--late",    "1:2ms",   "--slow",      "0:1mbit",
                                      "--slow",    "0-1:5ms",   "--rates", "1,2,3,4",     "--message-cost",
                                      "3us",       "--slice",   "8K"});
  ASSERT_FALSE(parsed.finished) << parsed.text;
  const Options& o = parsed.options;
  EXPECT_THAT(o.worlds, ElementsAre(2, 4, 8, 16, 7));
  EXPECT_THAT(o.sizes, ElementsAre(1024, 2048, 4096));
  ASSERT_EQ(o.levels.levels.size(), 2u);
  EXPECT_EQ(o.levels.levels[0].group, 2);
  EXPECT_DOUBLE_EQ(o.levels.levels[1].link.ns_per_byte, 8);
  EXPECT_EQ(o.stragglers.late[0].by_ns, 2e6);
  EXPECT_DOUBLE_EQ(o.stragglers.slow_ranks[0].link.ns_per_byte, 8000);
  EXPECT_EQ(o.stragglers.slow_pairs[0].link.latency_ns, 5e6);
  EXPECT_EQ(o.rates->hop, 4);
  EXPECT_EQ(o.message_cost_ns, 3000);
  EXPECT_EQ(o.slices_in_flight, 31u) << "twice 125,000 bytes in slices of 8 KiB";
}

TEST(SimOptions, MistakesAreNamed) {
  EXPECT_THAT(mistake({"--ranks", "0"}), HasSubstr("'0'"));
  EXPECT_THAT(mistake({"--ranks", "8-2"}), HasSubstr("expected ranks"));
  EXPECT_THAT(mistake({"--ranks", "8-"}), HasSubstr("expected ranks"));
  EXPECT_THAT(mistake({"--ranks", "99999999999"}), HasSubstr("expected ranks"));
  EXPECT_THAT(mistake({"--link", "fast"}), HasSubstr("link 'fast'"));
  EXPECT_THAT(mistake({"--level", "8"}), HasSubstr("link ''"));
  EXPECT_THAT(mistake({"--level", "x:1gbit"}), HasSubstr("RANKS:LINK"));
  EXPECT_THAT(mistake({"--level", "8:1gbit", "--level", "12:1gbit"}), HasSubstr("multiple"));
  EXPECT_THAT(mistake({"--shared-ports"}), HasSubstr("add a level"));
  EXPECT_THAT(mistake({"--late", "1"}), HasSubstr("RANK:TIME"));
  EXPECT_THAT(mistake({"--late", "-1:5ms"}), HasSubstr("RANK:TIME"));
  EXPECT_THAT(mistake({"--late", "1:1gbit"}), HasSubstr("RANK:TIME"));
  EXPECT_THAT(mistake({"--slow", "1-:1gbit"}), HasSubstr("RANK-RANK"));
  EXPECT_THAT(mistake({"--rates", "1,2,3"}), HasSubstr("ENCODE,DECODE"));
  EXPECT_THAT(mistake({"--rates", "1,2,3,-4"}), HasSubstr("ENCODE,DECODE"));
  EXPECT_THAT(mistake({"--rates", "nan,2,3,4"}), HasSubstr("ENCODE,DECODE"));
  EXPECT_THAT(mistake({"--slice", "0"}), HasSubstr("--slice 0"));
  EXPECT_THAT(mistake({"--message-cost", "soon"}), HasSubstr("--message-cost soon"));
  EXPECT_THAT(mistake({"-b", "4K", "-e", "1K"}), HasSubstr("minbytes"));
  EXPECT_THAT(mistake({"-d", "all"}), HasSubstr("one element type"));
  EXPECT_THAT(mistake({"--plot", "a.gif"}), HasSubstr(".png or .svg"));
  EXPECT_THAT(mistake({"--wings"}), HasSubstr("--wings"));
  EXPECT_EQ(parse({"--help"}).exit_code, 0);
}

Status run(std::vector<const char*> arguments, std::vector<CaseResult>& results) {
  const ParsedOptions parsed = parse(std::move(arguments));
  EXPECT_FALSE(parsed.finished) << parsed.text;
  return run_cases(parsed.options, [&](const CaseResult& result) { results.push_back(result); });
}

TEST(SimCases, NamesAreChecked) {
  std::vector<CaseResult> none;
  EXPECT_THAT(run({"--algo", "sideways"}, none).text(), HasSubstr("there are: direct"));
  EXPECT_FALSE(run({"--codec", "int99"}, none).ok());
  EXPECT_FALSE(run({"--codec", ""}, none).ok());
  EXPECT_THAT(run({"--codec", "none/int4"}, none).text(), HasSubstr("is for 2 levels"));
  EXPECT_THAT(run({"--codec", "int4", "-d", "int32"}, none).text(), HasSubstr("no sums of i32"));
  EXPECT_THAT(run({"--ranks", "2", "--late", "5:1ms"}, none).text(), HasSubstr("ranks 0 to 1"));
  EXPECT_TRUE(none.empty());
}

TEST(SimCases, CodecsAreThoseOfTheLibrary) {
  std::vector<CaseResult> results;
  ASSERT_TRUE(run({"--ranks", "8",    "--level", "4:1tbit", "-d",     "half",        "-b",
                   "2",       "-e",   "32K",     "-f",      "16384",  "--codec",     "int4",
                   "--rates", "free", "--algo",  "direct",  "--algo", "hierarchical"},
                  results)
                  .ok());
  ASSERT_EQ(results.size(), 4u);
  EXPECT_EQ(results[0].codec(), "none") << "an element would not shrink";
  EXPECT_THAT(results[2].codec(), HasSubstr("int4"));
  EXPECT_THAT(results[3].codec(), testing::StartsWith("none/int4"));
  EXPECT_EQ(results[3].answer.outcome.level_bytes.size(), 2u);
}

TEST(SimReport, HasWhatScriptsRead) {
  std::vector<CaseResult> results;
  ASSERT_TRUE(
      run({"--ranks", "4", "-b", "64K", "--codec", "int4", "--rates", "1,2,3,4", "--algo", "ring"}, results)
          .ok());
  CaseResult bad = results[0];
  bad.status = {ErrorCode::unsupported, "too large"};
  results.push_back(bad);
  const auto json = json_report(parse({}).options, "ferrule-sim", results);
  ASSERT_EQ(json["results"].size(), 1u);
  EXPECT_EQ(json["simulator"], 1);
  EXPECT_EQ(json["results"][0]["algo"], "ring");
  EXPECT_EQ(json["results"][0]["ranks"], 4);
  EXPECT_EQ(json["results"][0]["bytes"], 65536);
  EXPECT_EQ(json["results"][0]["mode"], "full");
  EXPECT_DOUBLE_EQ(json["results"][0]["algbw_gbps"].get<double>(),
                   65.536 / json["results"][0]["time_us"].get<double>());
  EXPECT_EQ(json["rates_ns_per_byte"].begin()->at("hop"), 4);
  EXPECT_EQ(json["skipped"][0]["why"], "too large");
  EXPECT_THAT(table_row(bad), HasSubstr("too large"));
  EXPECT_THAT(table_row(results[0]), HasSubstr("full"));
}

}  // namespace
}  // namespace ferrule::sim
