// What choices go by: measured when a communicator is made, or read from a file; and the codec that is left
// to it.
#include <chrono>
#include <fstream>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

/// FERRULE_TUNING for one test: communicators read it when they are made.
class TuningTest : public ::testing::Test {
 protected:
  void tune(const std::string& value) { ::setenv("FERRULE_TUNING", value.c_str(), 1); }
  void tune_from(const std::string& text) {
    std::ofstream(path_) << text;
    tune("file:" + path_);
  }
  void SetUp() override {
    const char* before = std::getenv("FERRULE_TUNING");
    if (before != nullptr) before_ = before;
  }
  void TearDown() override {
    if (before_.empty()) ::unsetenv("FERRULE_TUNING");
    if (!before_.empty()) ::setenv("FERRULE_TUNING", before_.c_str(), 1);
    std::filesystem::remove(path_);
  }

  std::string before_;
  const std::string path_ = ::testing::TempDir() + "ferrule-tuning-" + std::to_string(::getpid());
};

// Bytes on the wire of one all-reduce of 1 MiB on every rank of a world of 3, and the sums.
struct Outcome {
  std::uint64_t bytes = 0;
  std::vector<float> sums;
};

std::vector<Outcome> reduce(const std::string& codec, const CommunicatorConfig& config = {}) {
  auto comms = make_world(3, config);
  std::vector<Outcome> outcomes(comms.size());
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    std::vector<float> values = random_values(1 << 18, static_cast<unsigned>(rank) + 1);
    AllReduceOptions options;
    options.codec = codec;
    auto work = comm.all_reduce_async({values.data(), values.size()}, ReduceOp::sum, options);
    ASSERT_TRUE(work.ok()) << work.status().text();
    ASSERT_TRUE(work->wait().ok());
    outcomes[static_cast<std::size_t>(rank)] = {work->bytes_sent(), values};
  });
  return outcomes;
}

constexpr const char* kSlow = "link 100 1 80\ncodec int4 0.8 0.4\n";    // 80 ns a byte: 0.1 Gbit/s
constexpr const char* kFast = "link 2 0.5 0.05\ncodec int4 0.8 0.4\n";  // 20 GB/s

TEST_F(TuningTest, AutoCompressesOnASlowLink) {
  tune_from(kSlow);
  const auto automatic = reduce("auto:int4");
  const auto int4 = reduce("int4");
  for (std::size_t rank = 0; rank < automatic.size(); ++rank) {
    EXPECT_EQ(automatic[rank].bytes, int4[rank].bytes);
    EXPECT_EQ(automatic[rank].sums, int4[rank].sums);
  }
}

TEST_F(TuningTest, AutoIsRawOnAFastLink) {
  tune_from(kFast);
  const auto automatic = reduce("auto:int4");
  const auto raw = reduce("none");
  for (std::size_t rank = 0; rank < automatic.size(); ++rank) {
    EXPECT_EQ(automatic[rank].bytes, raw[rank].bytes);
    EXPECT_EQ(automatic[rank].sums, raw[rank].sums);
  }
}

TEST_F(TuningTest, AutoMeasuresForItself) {
  tune("measure");
  CommunicatorConfig config;
  config.link = "20mbit,1us";
  config.codec = "auto:int4";
  const auto automatic = reduce("", config);
  EXPECT_LT(automatic[0].bytes, 300000U) << "raw are 1.4 MB, over a link of 20 Mbit/s";
  EXPECT_EQ(automatic[0].sums, automatic[2].sums);
}

TEST_F(TuningTest, AutoLeavesAloneWhatItsCodecDoesNotTake) {
  tune_from(kSlow);
  auto comms = make_world(2);
  on_all_ranks(comms, [](int, Communicator& comm) {
    std::vector<std::int32_t> values(1 << 18, 7);
    AllReduceOptions options;
    options.codec = "auto:int4";
    ASSERT_TRUE(comm.all_reduce({values.data(), values.size()}, ReduceOp::sum, options).ok());
    EXPECT_EQ(values[1000], 14);
  });
}

TEST_F(TuningTest, TheCallersFirstCollectiveIsNumberZeroAndStatisticsAreItsOwn) {
  tune("measure");
  auto comms = make_world(3);
  for (const Communicator& comm : comms) {
    const ferruleStats_t stats = comm.stats();
    EXPECT_EQ(stats.collectives, 0U);
    EXPECT_EQ(stats.bytes_sent, 0U);
  }
  std::vector<float> one(1);
  AllReduceOptions options;
  options.timeout = std::chrono::milliseconds(100);
  const Status status = comms[1].all_reduce({one.data(), one.size()}, ReduceOp::sum, options);
  EXPECT_NE(status.text().find("all_reduce #0"), std::string::npos) << status.text();
}

TEST_F(TuningTest, WhatCannotBeUnderstoodIsNamed) {
  const auto error_of = [&](const std::string& value) {
    tune(value);
    auto comms = Communicator::local(2);
    return comms.ok() ? std::string("no error") : comms.status().text();
  };
  EXPECT_NE(error_of("sometimes").find("'sometimes'"), std::string::npos);
  EXPECT_NE(error_of("file:/nowhere/at/all").find("/nowhere/at/all"), std::string::npos);
  for (const char* text : {"link 1 2", "link 1 2 -3", "link 1 2 nan", "link 1 2 3 4", "codec int4 1",
                           "codec int99 1 1", "speed 3", "# all right\nlink 1 1 1\nlink x"}) {
    std::ofstream(path_) << text;
    EXPECT_NE(error_of("file:" + path_).find("tuning, line"), std::string::npos) << text;
  }
}

}  // namespace
}  // namespace ferrule::testing
