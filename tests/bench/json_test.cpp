#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <filesystem>

#include "bench/ferrule_bench/json_report.hpp"
#include "bench/schema_check.hpp"

namespace ferrule::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

CaseResult example() {
  CaseResult result;
  result.what = {.codec = "int4", .algorithm = "direct", .count = 1024, .lossy = true};
  result.ranks = 4;
  result.transport = "loopback";
  result.algorithm_ran = "direct";
  result.codec_ran = "int4:block=128,round=nearest";
  result.out_of_place = {{10, 20, 30}, 20, 1000, 10, 60, 20, {3, 66}};
  result.in_place = {{5, 5, 5}, 5, 1000, 10, 60, 20, {1, 100}};
  result.out_of_place_verdict = Verdict{.rel_error = 0.1, .max_error = 0.5};
  result.in_place_verdict = Verdict{.rel_error = 0.1, .max_error = 0.5};
  result.raw_wire_bytes = 6144;
  return result;
}

nlohmann::json report_of(const std::vector<CaseResult>& results) {
  const RunDescription run{describe_machine(),     "ferrule-bench -b 8", "0.1.0", "info", "abc",
                           "2024-01-01T00:00:00Z", {1000, 2000}};
  return nlohmann::json::parse(json_report(run, Options{}, results).dump());
}

nlohmann::json schema() { return read_json(FERRULE_BENCH_SCHEMA); }

TEST(JsonReport, FitsItsSchema) {
  EXPECT_THAT(violations(schema(), report_of({example()})), IsEmpty());
  EXPECT_THAT(violations(schema(), report_of({})), IsEmpty());
}

TEST(JsonReport, HasTheNamesThatScriptsUse) {
  const auto report = report_of({example()});
  EXPECT_EQ(report["memory"]["scratch_bytes"], 1000);
  EXPECT_EQ(report["memory"]["peak_rss_bytes"], 2000);
  EXPECT_EQ(report["settings"]["jitter"], "");
  const auto& result = report["results"][0];
  EXPECT_EQ(result["codec"], "int4");
  EXPECT_EQ(result["algo"], "direct");
  EXPECT_EQ(result["ranks"], 4);
  EXPECT_EQ(result["transport"], "loopback");
  EXPECT_EQ(result["dtype"], "f32");
  EXPECT_EQ(result["op"], "sum");
  EXPECT_EQ(result["bytes"], 4096);
  EXPECT_EQ(result["time_us"]["p50"], 20.0);
  EXPECT_EQ(result["time_us"]["p95"], 30.0);
  EXPECT_EQ(result["time_us"]["p99"], 30.0);
  EXPECT_EQ(result["time_us"]["max"], 30.0);
  EXPECT_EQ(result["algorithm_ran"], "direct");
  EXPECT_EQ(result["slowest_rank"]["rank"], 3);
  EXPECT_EQ(result["in_place"]["slowest_rank"]["rank"], 1);
  EXPECT_DOUBLE_EQ(result["algbw_gbps"], 4096 / 20e3);
  EXPECT_DOUBLE_EQ(result["busbw_gbps"], 1.5 * 4096 / 20e3);
  EXPECT_EQ(result["wire_bytes"], 1000);
  EXPECT_DOUBLE_EQ(result["compression"], 6.144);
  EXPECT_EQ(result["rel_error"], 0.1);
  EXPECT_EQ(result["max_error"], 0.5);
  EXPECT_EQ(result["wrong"], 0);
  EXPECT_EQ(result["identical"], true);
  EXPECT_THAT(result["samples_us"], SizeIs(3));
}

TEST(JsonReport, WithoutChecksThereAreNulls) {
  CaseResult result = example();
  result.out_of_place_verdict.reset();
  const auto json = report_of({result});
  EXPECT_TRUE(json["results"][0]["wrong"].is_null());
  EXPECT_THAT(violations(schema(), json), IsEmpty());
}

TEST(JsonReport, InfinitiesAreNull) {
  CaseResult result = example();
  result.out_of_place_verdict->max_error = HUGE_VAL;
  const auto json = report_of({result});
  EXPECT_TRUE(json["results"][0]["max_error"].is_null());
  EXPECT_THAT(violations(schema(), json), IsEmpty());
}

TEST(SchemaCheck, SeesWhatIsWrong) {
  auto report = report_of({example()});
  report["results"][0].erase("codec");
  report["results"][0]["wire_bytes"] = "many";
  report["results"][0]["samples_us"][1] = -1;
  report["results"][0]["dtype"] = "f8";
  report["schema"] = 2;
  EXPECT_THAT(violations(schema(), report), SizeIs(5));
  auto grown = schema();
  grown["maxItems"] = 3;
  EXPECT_THAT(violations(grown, report_of({})), SizeIs(1));
}

TEST(WriteJson, ReplacesTheFileAndNamesTheReason) {
  const std::string path = testing::TempDir() + "/ferrule_bench_json_test.json";
  ASSERT_TRUE(write_json({{"a", 1}}, path).ok());
  ASSERT_TRUE(write_json({{"a", 2}}, path).ok());
  EXPECT_EQ(read_json(path)["a"], 2);
  std::filesystem::remove(path);
  const Status status = write_json({{"a", 1}}, "/nonexistent/folder/file.json");
  ASSERT_FALSE(status.ok());
  EXPECT_THAT(status.text(), HasSubstr("/nonexistent/folder/file.json"));
}

}  // namespace
}  // namespace ferrule::bench
