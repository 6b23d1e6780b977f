#include "bench/ferrule_bench/statistics.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "bench/ferrule_bench/results.hpp"

namespace ferrule::bench {
namespace {

TEST(BusFactor, IsWhatCrossesALink) {
  EXPECT_DOUBLE_EQ(bus_factor(1), 0);
  EXPECT_DOUBLE_EQ(bus_factor(2), 1);
  EXPECT_DOUBLE_EQ(bus_factor(3), 4.0 / 3);
  EXPECT_DOUBLE_EQ(bus_factor(8), 1.75);
}

TEST(Algbw, IsUncompressedBytesOverTime) {
  EXPECT_DOUBLE_EQ(algbw_gbps(1'000'000'000, 1e6), 1);
  EXPECT_DOUBLE_EQ(algbw_gbps(std::uint64_t{4} << 20, 1000), 4.194304);
  EXPECT_DOUBLE_EQ(algbw_gbps(8, 0), 0);
}

TEST(Summary, PercentilesAreSamples) {
  std::vector<double> samples;
  for (int i = 100; i >= 1; --i) samples.push_back(i);
  const Summary summary = summarise(samples);
  EXPECT_DOUBLE_EQ(summary.mean, 50.5);
  EXPECT_DOUBLE_EQ(summary.min, 1);
  EXPECT_DOUBLE_EQ(summary.p50, 50);
  EXPECT_DOUBLE_EQ(summary.p95, 95);
  EXPECT_DOUBLE_EQ(summary.p99, 99);
  EXPECT_DOUBLE_EQ(summary.max, 100);
}

TEST(Summary, OfFewSamples) {
  EXPECT_DOUBLE_EQ(summarise({}).max, 0);
  const std::vector<double> one{7};
  EXPECT_DOUBLE_EQ(summarise(one).p50, 7);
  EXPECT_DOUBLE_EQ(summarise(one).p95, 7);
  const std::vector<double> two{3, 1};
  EXPECT_DOUBLE_EQ(summarise(two).p50, 1);
  EXPECT_DOUBLE_EQ(summarise(two).p95, 3);
}

TEST(Slowest, IsTheRankThatWasItMostOften) {
  const std::vector<std::int64_t> ranks{2, 0, 2, 1, 2};
  EXPECT_EQ(most_often(ranks).rank, 2);
  EXPECT_DOUBLE_EQ(most_often(ranks).percent, 60);
  const std::vector<std::int64_t> equal{3, 1, 1, 3};
  EXPECT_EQ(most_often(equal).rank, 1);
  EXPECT_DOUBLE_EQ(most_often({}).percent, 0);
}

CaseResult result_of(int ranks) {
  CaseResult result;
  result.what.codec = "int4";
  result.what.algorithm = "direct";
  result.what.count = std::uint64_t{1} << 20;
  result.ranks = ranks;
  result.out_of_place.shown_us = 1000;
  result.out_of_place.wire_bytes = 1000;
  result.raw_wire_bytes = 7750;
  return result;
}

TEST(CaseResult, BusbwIsOnUncompressedBytes) {
  EXPECT_DOUBLE_EQ(result_of(1).busbw_gbps(result_of(1).out_of_place), 0);
  EXPECT_DOUBLE_EQ(result_of(2).busbw_gbps(result_of(2).out_of_place), 4.194304);
  EXPECT_DOUBLE_EQ(result_of(8).busbw_gbps(result_of(8).out_of_place), 4.194304 * 1.75);
}

TEST(CaseResult, CompressionIsRawOverWire) {
  EXPECT_DOUBLE_EQ(result_of(4).compression(), 7.75);
  CaseResult alone = result_of(1);
  alone.out_of_place.wire_bytes = 0;
  EXPECT_DOUBLE_EQ(alone.compression(), 1);
}

TEST(CaseResult, PassesOnlyIfRightAndIdenticalInBothPlaces) {
  CaseResult result = result_of(2);
  EXPECT_TRUE(result.passed()) << "nothing checked, nothing wrong";
  EXPECT_FALSE(result.verdict().has_value());
  result.out_of_place_verdict = Verdict{.rel_error = 0.1};
  result.in_place_verdict = Verdict{.rel_error = 0.2};
  EXPECT_TRUE(result.passed());
  EXPECT_DOUBLE_EQ(result.verdict()->rel_error, 0.2);
  result.in_place_verdict->wrong = 1;
  EXPECT_FALSE(result.passed());
  result.in_place_verdict->wrong = 0;
  result.out_of_place_verdict->identical = false;
  EXPECT_FALSE(result.passed());
}

}  // namespace
}  // namespace ferrule::bench
