// ferrule-probe itself, as users run it.
#include <gmock/gmock.h>

#include <filesystem>

#include "bench/program_run.hpp"
#include "bench/schema_check.hpp"
#include "communicator/tuning.hpp"

namespace ferrule::probe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;

bench::ProgramRun run_probe(const std::string& arguments, const std::string& variables = "") {
  return bench::run_program_at(variables + " " + FERRULE_PROBE_PROGRAM, arguments);
}

void expect_full_matrix(const nlohmann::json& matrix, std::size_t ranks) {
  ASSERT_THAT(matrix, SizeIs(ranks));
  for (std::size_t row = 0; row < ranks; ++row) {
    ASSERT_THAT(matrix[row], SizeIs(ranks));
    for (std::size_t column = 0; column < ranks; ++column) {
      if (row == column) {
        EXPECT_TRUE(matrix[row][column].is_null());
      } else {
        EXPECT_GT(matrix[row][column].get<double>(), 0) << row << " to " << column;
      }
    }
  }
}

void expect_good(const bench::ProgramRun& run, std::size_t ranks) {
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  EXPECT_THAT(run.err, IsEmpty());
  EXPECT_THAT(run.out, StartsWith("ferrule-probe "));
  EXPECT_THAT(bench::violations(bench::read_json(FERRULE_PROBE_SCHEMA), run.json), IsEmpty());
  ASSERT_THAT(run.json["ranks"], SizeIs(ranks));
  expect_full_matrix(run.json["latency_us"], ranks);
  expect_full_matrix(run.json["bandwidth_gbps"], ranks);
  EXPECT_THAT(run.json["choices"], SizeIs(9));
}

class ProbeOver : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Program, ProbeOver, testing::Values("loopback", "ucx"),
                         [](const auto& parameter) { return parameter.param; });

TEST_P(ProbeOver, TwoRanks) {
  const auto run = run_probe(std::string("--ranks 2 --codec int4 --codec int8 --transport ") + GetParam());
  expect_good(run, 2);
  EXPECT_THAT(run.json["transport"].get<std::string>(), HasSubstr(GetParam()));
  ASSERT_THAT(run.json["codecs"], SizeIs(2));
  for (const auto& codec : run.json["codecs"]) EXPECT_GT(codec["encode_gbps"], 0);
}

TEST_P(ProbeOver, ThreeRanksOverASlowLinkWhereCompressionPays) {
  const std::string saved = bench::scratch_path("tuning");
  const auto run = run_probe(std::string("--ranks 3 --codec int4 --link 50mbit,1ms --save ") + saved +
                             " --transport " + GetParam());
  expect_good(run, 3);
  for (const auto& row : run.json["latency_us"]) {
    for (const auto& entry : row) {
      if (!entry.is_null()) {
        EXPECT_GE(entry.get<double>(), 1000) << "the throttle's latency";
      }
    }
  }
  for (const auto& row : run.json["bandwidth_gbps"]) {
    for (const auto& entry : row) {
      if (!entry.is_null()) {
        // No train is faster than the throttle, and at most half of its time is taken off as the round
        // trip's.
        EXPECT_LE(entry.get<double>(), 2.1 * 0.00625) << "the throttle's bandwidth";
      }
    }
  }
  EXPECT_EQ(run.json["choices"].back()["auto"][0]["compresses"], true);
  EXPECT_EQ(run.json["choices"].front()["auto"][0]["compresses"], false)
      << "4 KiB stay exact, whatever they cost";
  EXPECT_GT(run.json["codecs"][0]["break_even_gbit"], 0.05);

  const auto read = communicator::Tuning::read(saved);
  ASSERT_TRUE(read.ok()) << read.status().text();
  const double latency_us = run.json["link"]["latency_us"].get<double>();
  EXPECT_NEAR(read->link.latency_s * 1e6, latency_us, 1e-5 * latency_us) << "the file has six digits";
  EXPECT_EQ(read->codecs.size(), 1u);
  const auto used = bench::run_program_at("FERRULE_TUNING=file:" + saved + " " + FERRULE_BENCH_PROGRAM,
                                          "-t 3 -b 1M -e 1M -n 1 -w 0 --codec auto:int4");
  EXPECT_EQ(used.exit_code, 0) << used.err;
  EXPECT_THAT(used.json["results"][0]["codec_ran"].get<std::string>(), StartsWith("int4"));
  std::filesystem::remove(saved);
}

TEST_P(ProbeOver, ARankThatDiesEndsItWithAText) {
  const auto run = run_probe(std::string("--ranks 2 --timeout 5 --transport ") + GetParam(),
                             "FERRULE_FAULT=die:nth=30,rank=1");
  EXPECT_EQ(run.exit_code, 3) << run.out;
  EXPECT_THAT(run.out, IsEmpty());
  EXPECT_THAT(run.err, HasSubstr("ferrule-probe: rank "));
}

TEST(ProbeProgram, ASavedTuningDoesNotKeepItFromMeasuring) {
  const auto run =
      run_probe("--ranks 2 --transport loopback --codec int4", "FERRULE_TUNING=builtin FERRULE_DISABLE=1");
  expect_good(run, 2);
  EXPECT_NE(run.json["link"]["byte_ns"], 0.25) << "a constant of the library";
}

TEST(ProbeProgram, MistakesEndWithTwoAndAreSaidOnce) {
  for (const char* arguments :
       {"--ranks 2 --codec int99", "--ranks 2 --transport pigeon", "--ranks 1", "--ranks 0",
        "--ranks 2 --link 1parsec", "--save /nonexistent/t --ranks 2", "--nonsense", ""}) {
    const auto run = run_probe(arguments, "env -u RANK -u WORLD_SIZE");
    EXPECT_EQ(run.exit_code, 2) << arguments << run.err;
    EXPECT_THAT(run.out, IsEmpty()) << arguments;
    EXPECT_THAT(run.err, StartsWith("ferrule-probe: ")) << arguments;
    EXPECT_THAT(run.err, EndsWith("\n"));
  }
}

}  // namespace
}  // namespace ferrule::probe
