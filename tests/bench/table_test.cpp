// The texts on the right are what nccl-tests' all_reduce_perf prints; third-party scripts parse them.
#include "bench/ferrule_bench/table.hpp"

#include <gmock/gmock.h>

#include <sstream>

namespace ferrule::bench {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr std::size_t kNameWidth = 15;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

Row row_of(double time_us, double algbw, double busbw) {
  Row row;
  row.type = "float";
  row.op = "sum";
  row.out_of_place = {time_us, algbw, busbw, 0};
  row.in_place = row.out_of_place;
  row.extra.codec = "none";
  row.extra.algorithm = "auto";
  return row;
}

TEST(Table, RunHeader) {
  const RunHeader header{.sizes = {.min_bytes = 8, .max_bytes = 134217728, .factor = 2},
                         .warmup_iters = 5,
                         .iters = 20,
                         .agg_iters = 1,
                         .check_iters = 1};
  EXPECT_EQ(run_header(header),
            "# nThread 1 nGpus 1 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg "
            "iters: 1 "
            "validation: 1 graph: 0\n#\n");
}

TEST(Table, RunHeaderWithStep) {
  const RunHeader header{
      .sizes = {}, .warmup_iters = 1, .iters = 2, .agg_iters = 3, .check_iters = 0, .blocking = true};
  EXPECT_EQ(run_header(header),
            "# nThread 1 nGpus 1 minBytes 33554432 maxBytes 33554432 step: 1048576(bytes) warmup iters: 1 "
            "iters: 2 agg "
            "iters: 3 validation: 0 graph: 0\n# Blocking Enabled: wait for completion and barrier after each "
            "collective \n#\n");
}

TEST(Table, Devices) {
  EXPECT_EQ(device_lines({{0, 8756, "Meowth", "Some CPU"}, {11, 548419, "a-very-long-host", "Other CPU"}}),
            "# Using devices\n"
            "#  Rank  0 Group  0 Pid   8756 on     Meowth device  0 [0x00] Some CPU\n"
            "#  Rank 11 Group  0 Pid 548419 on a-very-long-host device  0 [0x00] Other CPU\n");
}

TEST(Table, Header) {
  const auto lines = lines_of(table_header(kNameWidth));
  ASSERT_EQ(lines.size(), 4u);
  EXPECT_EQ(lines[0], "#");
  EXPECT_EQ(lines[1],
            "#                                                              out-of-place                     "
            "  in-place "
            "         ");
  EXPECT_THAT(lines[2],
              StartsWith("#       size         count      type   redop    root     time   algbw   busbw "
                         "#wrong     time   algbw   busbw #wrong"));
  EXPECT_THAT(lines[3],
              StartsWith("#        (B)    (elements)                               (us)  (GB/s)  (GB/s)      "
                         "      (us)  (GB/s)  (GB/s)       "));
  EXPECT_THAT(lines[2], HasSubstr("wire    ratio    enc   wait    dec"));
}

TEST(Table, RowStartsAsInNcclTests) {
  Row row = row_of(857.6, 156.51, 156.51);
  row.bytes = 134217728;
  row.count = 33554432;
  row.in_place = {819.6, 163.76, 163.76, 0};
  EXPECT_THAT(
      table_row(row, kNameWidth),
      StartsWith(
          "   134217728      33554432     float     sum      -1    857.6  156.51  156.51      0    819.6 "
          " 163.76  163.76      0"));
}

TEST(Table, RowOfShortAndLongTimes) {
  Row row = row_of(90330, 118.87, 222.88);
  row.bytes = 10737418240;
  row.count = 2684354560;
  row.in_place = {91945, 116.78, 218.96, 0};
  EXPECT_THAT(
      table_row(row, kNameWidth),
      StartsWith(
          " 10737418240    2684354560     float     sum      -1    90330  118.87  222.88      0    91945 "
          " 116.78  218.96      0"));
  row = row_of(32.31, 0, 0);
  row.bytes = 128;
  row.count = 4;
  row.in_place = {5.5, 0.01, 0, 0};
  EXPECT_THAT(
      table_row(row, kNameWidth),
      StartsWith(
          "         128             4     float     sum      -1    32.31    0.00    0.00      0     5.50 "
          "   0.01    0.00      0"));
}

TEST(Table, RowWithoutChecks) {
  Row row = row_of(32.31, 0, 0);
  row.out_of_place.wrong.reset();
  row.in_place.wrong.reset();
  const std::string text = table_row(row, kNameWidth);
  EXPECT_THAT(text, HasSubstr("0.00    N/A    32.31"));
  EXPECT_THAT(text, HasSubstr("N/A       N/A    N/A  none auto  "));
}

TEST(Table, ColumnsOfOwnAlignWithTheirTitles) {
  Row row = row_of(32.31, 0, 0);
  row.extra = {541065,
               7.752,
               12.5,
               61.25,
               9,
               0.127,
               1.5,
               false,
               "int4",
               "direct",
               {.p50 = 32.5, .p95 = 40, .p99 = 123.4, .max = 12345},
               {11, 95}};
  const std::string text = table_row(row, kNameWidth);
  EXPECT_THAT(
      text,
      HasSubstr("      541065    7.752   12.5   61.2    9.0  1.27e-01  1.50e+00     NO  int4 direct        "
                "32.50    40.00    123.4    12345     11 95%\n"));
  const std::string titles = lines_of(table_header(kNameWidth))[2];
  const auto end_of = [](const std::string& in, const std::string& word) {
    return in.find(word) + word.size();
  };
  EXPECT_EQ(end_of(text, "541065"), end_of(titles, "  wire"));
  EXPECT_EQ(end_of(text, "1.27e-01"), end_of(titles, "relerr"));
  EXPECT_EQ(text.find("int4"), titles.find("codec"));
  EXPECT_EQ(end_of(text, "123.4"), end_of(titles, "p99"));
  EXPECT_EQ(end_of(text, "11 95%"), end_of(titles, "slowest"));
}

TEST(Table, MemoryIsALineThatOtherScriptsSkip) {
  EXPECT_EQ(memory_line({3 << 19, 200 << 20}),
            "# Memory: scratch 1.5 MiB a rank, peak resident 200.0 MiB a process\n");
}

TEST(Table, Footer) {
  EXPECT_EQ(table_footer({0, 3.21}), "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 3.21 \n#\n");
  EXPECT_EQ(table_footer({5, 179.465}),
            "# Out of bounds values : 5 FAILED\n# Avg bus bandwidth    : 179.465 \n#\n");
}

}  // namespace
}  // namespace ferrule::bench
