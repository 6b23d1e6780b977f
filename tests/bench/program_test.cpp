#include <gmock/gmock.h>

#include <filesystem>
#include <sstream>

#include "bench/program_run.hpp"
#include "bench/schema_check.hpp"

namespace ferrule::bench {
namespace {

using ::testing::ContainsRegex;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;

/// What every good run has in common.
void expect_good(const ProgramRun& run) {
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.err, IsEmpty()) << "nothing to say on stderr";
  EXPECT_THAT(run.out, HasSubstr("# Out of bounds values : 0 OK\n"));
  EXPECT_THAT(run.out, ContainsRegex("# Avg bus bandwidth    : [0-9.e+-]+ \n#\n$"));
  EXPECT_THAT(violations(read_json(FERRULE_BENCH_SCHEMA), run.json), IsEmpty());
  for (const auto& result : run.json["results"]) {
    EXPECT_EQ(result["wrong"], 0) << result["codec"] << result["bytes"];
    EXPECT_EQ(result["identical"], true) << result["codec"] << result["bytes"];
  }
}

class EachTransport : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Program, EachTransport, testing::Values("loopback", "ucx"),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(EachTransport, Int4SendsSevenAndAHalfTimesLess) {
  const ProgramRun run = run_program(std::string("--ranks 2 --transport ") + GetParam() +
                                     " -b 4M -e 4M -n 2 -w 1 --codec none --codec int4 --algo direct");
  expect_good(run);
  ASSERT_THAT(run.json["results"], SizeIs(2));
  const auto& raw = run.json["results"][0];
  const auto& int4 = run.json["results"][1];
  EXPECT_EQ(raw["codec"], "none");
  EXPECT_NEAR(raw["compression"].get<double>(), 1, 1e-3);
  EXPECT_LT(raw["rel_error"], 1e-6);
  EXPECT_GE(raw["wire_bytes"], 4 << 20);
  EXPECT_GE(int4["compression"], 7.5);
  EXPECT_LT(int4["compression"], 8);
  EXPECT_GT(int4["rel_error"], 1e-3);
  EXPECT_LT(int4["rel_error"], 0.5);
  EXPECT_THAT(int4["samples_us"], SizeIs(2));
  EXPECT_THAT(int4["transport"].get<std::string>(), HasSubstr(GetParam()));
}

TEST_P(EachTransport, OddSizesAndRanks) {
  const ProgramRun run = run_program(std::string("--ranks 3 --transport ") + GetParam() +
                                     " -b 0 -e 200 -i 67 -n 2 -w 0 --codec none --codec int8 --codec bf16");
  expect_good(run);
  EXPECT_THAT(run.json["results"], SizeIs(3 * 3));
}

TEST(Program, EveryTypeAndOperationIsExact) {
  const ProgramRun run = run_program("-t 3 -b 4000 -e 4000 -n 1 -w 0 -d all -o all --data integer");
  expect_good(run);
  ASSERT_THAT(run.json["results"], SizeIs(7 * 5));
  for (const auto& result : run.json["results"]) {
    const double allowed =
        result["op"] == "avg" ? 0.05 : 0;  // only a division rounds: half a step of bf16 near 7
    EXPECT_LE(result["max_error"].get<double>(), allowed) << result["dtype"] << result["op"];
  }
}

TEST(Program, ErrorFeedbackMakesTheMeanBetter) {
  const ProgramRun run =
      run_program("-t 2 -b 64K -e 64K -n 2 -w 1 -c 20 --codec int4 --algo direct --error-feedback");
  expect_good(run);
  const auto& result = run.json["results"][0];
  EXPECT_EQ(result["error_feedback"], true);
  EXPECT_LT(result["rel_error_of_mean"].get<double>(), result["rel_error"].get<double>() / 4);
}

TEST(Program, AggregatedAndBlocking) {
  for (const char* blocking : {"0", "1"}) {
    const ProgramRun run =
        run_program(std::string("-t 2 -b 8K -e 32K -f 2 -n 3 -w 1 -m 3 --codec none --codec int4 "
                                "--error-feedback -a 3 -z ") +
                    blocking);
    expect_good(run);
    EXPECT_THAT(run.json["results"], SizeIs(6));
  }
}

TEST(Program, OneRankAlone) {
  const ProgramRun run =
      run_program("--ranks 1 --transport loopback -b 1K -e 1K -n 2 -w 0 --codec none --codec int4");
  expect_good(run);
  EXPECT_THAT(run.out, HasSubstr("# one rank alone sends nothing"));
  for (const auto& result : run.json["results"]) EXPECT_EQ(result["busbw_gbps"], 0);
}

TEST(Program, WithoutChecksItSaysSo) {
  const ProgramRun run = run_program("-t 2 -b 1K -e 1K -n 2 -w 0 -c 0");
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_THAT(run.out, HasSubstr("  N/A"));
  EXPECT_TRUE(run.json["results"][0]["wrong"].is_null());
}

TEST(Program, AThrottledLinkIsNeverBeaten) {
  const ProgramRun run =
      run_program("-t 2 -b 256K -e 256K -n 3 -w 1 --codec none --codec int4 --link 1gbit,0ms");
  expect_good(run);
  for (const auto& result : run.json["results"]) {
    const double wire_gbps =
        result["wire_bytes"].get<double>() / 1e3 / result["time_us"]["p50"].get<double>();
    EXPECT_LE(wire_gbps, 0.125 * 1.3) << "a bucket may let one burst through";
  }
  EXPECT_EQ(run.json["settings"]["link"], "1gbit,0ms");
}

TEST_P(EachTransport, ALateRankIsFound) {
  const ProgramRun run = run_program(std::string("--ranks 3 --transport ") + GetParam() +
                                     " -b 4K -e 4K -n 12 -w 1 --jitter 1:40ms");
  expect_good(run);
  for (const auto& place : {run.json["results"][0], run.json["results"][0]["in_place"]}) {
    // Which rank is slowest is up to the machine as well, so only the form is looked at.
    EXPECT_LT(place["slowest_rank"]["rank"], 3);
    EXPECT_GE(place["slowest_rank"]["percent"], 33);
    EXPECT_GE(place["time_us"]["max"], 20000)
        << "of 12 delays up to 40 ms, with this seed, one is longer than that";
  }
  EXPECT_EQ(run.json["settings"]["jitter"], "1:40ms");
}

TEST(Program, NamesWhatAutoBecameAndItsMemory) {
  const ProgramRun run = run_program(
      "-t 4 -b 4M -e 4M -n 1 -w 0 --link 1gbit,0ms --codec auto:int4 --codec none --algo auto --algo ring");
  expect_good(run);
  ASSERT_THAT(run.json["results"], SizeIs(4));
  for (const auto& result : run.json["results"]) {
    EXPECT_EQ(result["algorithm_ran"], result["algo"] == "ring" ? "ring" : "direct");
    EXPECT_EQ(result["codec_ran"].get<std::string>().substr(0, 4),
              result["codec"] == "none" ? "none" : "int4");
  }
  EXPECT_GT(run.json["memory"]["scratch_bytes"], 0);
  EXPECT_GT(run.json["memory"]["peak_rss_bytes"], 2 * (4 << 20));
  EXPECT_THAT(run.out, ContainsRegex("\n# Memory: scratch [0-9.]+ MiB a rank, peak resident [0-9.]+ MiB"));
}

TEST_P(EachTransport, CorruptedResultsAreFoundAndFailTheRun) {
  // Whole numbers, which must be exact, so that any flipped bit shows; four messages in a row, somewhere in
  // the checks.
  std::string faults;
  for (int nth = 60; nth < 64; ++nth) faults += "corrupt_payload:nth=" + std::to_string(nth) + ",rank=1;";
  faults.pop_back();
  const ProgramRun run =
      run_program(std::string("--ranks 2 --transport ") + GetParam() +
                  " -b 1K -e 1K -n 1 -w 0 -c 30 --data integer --algo direct --fault '" + faults + "'");
  EXPECT_EQ(run.exit_code, 1) << run.out << run.err;
  EXPECT_THAT(run.out, testing::AnyOf(HasSubstr("FAILED"), HasSubstr("different bits")));
}

TEST_P(EachTransport, ARankThatFailsEndsTheRunWithATextAndNoOrphans) {
  const ProgramRun run = run_program(std::string("--ranks 2 --transport ") + GetParam() +
                                     " -b 1K -e 1K -n 20 --timeout 5 --fault die:nth=30,rank=1");
  EXPECT_EQ(run.exit_code, 3) << run.out;
  EXPECT_THAT(run.err, HasSubstr("ferrule-bench: rank "));
}

TEST(Program, DrawsAPictureOrSaysWhatIsMissing) {
  const std::string picture = scratch_path("picture.svg");
  const ProgramRun run =
      run_program("-t 2 -b 0 -e 2K -i 1K -n 2 -w 0 --codec none --codec int8 --plot " + picture);
  EXPECT_EQ(run.json["results"].size(), 6u);
  if (run.exit_code == 0) {
    EXPECT_GT(std::filesystem::file_size(picture), 1000u);
    std::filesystem::remove(picture);
  } else {
    EXPECT_EQ(run.exit_code, 4);
    EXPECT_THAT(run.err, HasSubstr("no Python with matplotlib"));
  }
}

TEST(Program, MistakesEndWithTwoAndAreSaidOnce) {
  for (const char* arguments : {"-t 2 --codec int99", "-t 2 --algo sideways", "--ranks 2 --transport pigeon",
                                "-t 2 --codec int4 -d int32", "-b 1M -e 1K", "-t 2 --jitter 2:1ms",
                                "--plot /nonexistent/a.png -t 2"}) {
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << arguments << run.err;
    EXPECT_THAT(run.out, IsEmpty()) << arguments;
    EXPECT_THAT(run.err, EndsWith("\n"));
    EXPECT_THAT(run.err, Not(IsEmpty()));
  }
}

}  // namespace
}  // namespace ferrule::bench
