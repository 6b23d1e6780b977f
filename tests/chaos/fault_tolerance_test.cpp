// The promises of docs/fault_tolerance.md that need no process to be killed; tests/chaos/chaos has the
// others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

using namespace std::chrono_literals;

std::string log_file() {
  return (std::filesystem::temp_directory_path() / ("ferrule-stall-" + std::to_string(::getpid()))).string();
}

/// The log's file is chosen once a process, by the first line.
class LogToFile : public ::testing::Environment {
 public:
  void SetUp() override { ::setenv("FERRULE_DEBUG_FILE", log_file().c_str(), 1); }
  void TearDown() override { std::filesystem::remove(log_file()); }
};
const auto* const kLogToFile = ::testing::AddGlobalTestEnvironment(new LogToFile);

/// Sets a variable while it lives.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) { ::setenv(name, value, 1); }
  ~Variable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

std::vector<Status> reduce_on_all(std::vector<Communicator>& comms, std::size_t count,
                                  const AllReduceOptions& options,
                                  const std::function<void(int, std::vector<float>&)>& change = {}) {
  std::vector<Status> statuses(comms.size());
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    auto data = random_values(count, static_cast<unsigned>(rank));
    if (change) change(rank, data);
    statuses[static_cast<std::size_t>(rank)] = comm.all_reduce({data.data(), count}, ReduceOp::sum, options);
  });
  return statuses;
}

void expect_text(const Status& status, ErrorCode code, const std::vector<std::string>& words) {
  EXPECT_EQ(status.code(), code) << status.text();
  for (const std::string& word : words) {
    EXPECT_NE(status.text().find(word), std::string::npos) << "'" << word << "' in: " << status.text();
  }
}

TEST(Check, NonFiniteInputIsNamedOnAllRanksBeforeItIsSent) {
  const Variable check("FERRULE_CHECK", "nonfinite");
  auto comms = make_world(3);
  AllReduceOptions options;
  options.tensor = 3;
  const float bad[] = {std::nanf(""), std::numeric_limits<float>::infinity(),
                       -std::numeric_limits<float>::infinity()};
  const char* names[] = {"NaN", "+Inf", "-Inf"};
  for (std::size_t kind = 0; kind < 3; ++kind) {
    const auto statuses = reduce_on_all(comms, 10000, options, [&](int rank, std::vector<float>& data) {
      if (rank == 1) data[5007] = bad[kind];
    });
    for (const Status& status : statuses) {
      expect_text(status, ErrorCode::invalid_argument, {"rank 1 (", names[kind], "index 5007", "tensor 3"});
    }
  }
  for (const Status& status : reduce_on_all(comms, 10000, options)) EXPECT_TRUE(status.ok()) << status.text();
}

TEST(Check, EqualResultsPassTheIdentityCheck) {
  const Variable check("FERRULE_CHECK", "identity");
  for (const int world : {1, 2, 3, 5}) {
    auto comms = make_world(world);
    for (const std::string& codec : all_codecs()) {
      AllReduceOptions options;
      options.codec = codec;
      for (const Status& status : reduce_on_all(comms, 5000, options))
        EXPECT_TRUE(status.ok()) << status.text();
    }
  }
}

// A bit that flips in what the owner of a chunk gives one of the others: only that one is wrong.
TEST(Check, TheRankWithAnotherResultIsNamed) {
  const Variable check("FERRULE_CHECK", "identity");
  CommunicatorConfig config;
  config.fault = "corrupt_payload:nth=4,rank=0,seed=7";  // two contributions, then two results
  auto comms = make_world(3, config);
  AllReduceOptions options;
  options.codec = "none";
  options.algorithm = "direct";
  const auto statuses = reduce_on_all(comms, 3000, options);
  for (const Status& status : statuses) {
    expect_text(status, ErrorCode::corrupt, {"all_reduce #0 differ", "rank 2 (", "the other 2 have"});
  }
}

TEST(Check, TwoRanksThatDifferAreBothNamed) {
  const Variable check("FERRULE_CHECK", "all");
  CommunicatorConfig config;
  config.fault = "corrupt_payload:nth=2,rank=0,seed=7";
  auto comms = make_world(2, config);
  AllReduceOptions options;
  options.codec = "none";
  options.algorithm = "direct";
  for (const Status& status : reduce_on_all(comms, 3000, options)) {
    expect_text(status, ErrorCode::corrupt, {"rank 0 (", "rank 1 (", "no majority"});
  }
}

std::string log_text() {
  std::ifstream file(log_file());
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST(Stall, OneRankWarnsAndNamesWhoIsMissing) {
  const Variable warn("FERRULE_STALL_WARN", "100ms");
  auto comms = make_world(4);
  on_all_ranks(comms, [](int rank, Communicator& comm) {
    std::vector<float> data(100000, 1.0F);
    for (int call = 0; call < 5; ++call) {
      if (rank == 2 && call == 3) std::this_thread::sleep_for(2s);
      const Status status = comm.all_reduce({data.data(), data.size()});
      EXPECT_TRUE(status.ok()) << status.text();
    }
  });
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const std::string line = std::string("waiting for rank 2 on host ") + host.data() +
                           " in all_reduce #3, 0.4 MB; ranks 0, 1, 3 have arrived";
  const std::string log = log_text();
  const auto found = log.find(line);
  EXPECT_NE(found, std::string::npos) << log;
  EXPECT_EQ(log.find("waiting for", found == std::string::npos ? 0 : found + 1), std::string::npos) << log;
}

// In a ring the neighbours of the missing rank are missed, too; they are not to blame.
TEST(Stall, ATimeoutNamesTheMissingRankEverywhere) {
  CommunicatorConfig config;
  config.timeout = 1500ms;
  auto comms = make_world(4, config);
  on_all_ranks(comms, [](int rank, Communicator& comm) {
    if (rank == 2) return;
    std::vector<float> data(1000, 1.0F);
    AllReduceOptions options;
    options.algorithm = "ring";
    const Status status = comm.all_reduce({data.data(), data.size()}, ReduceOp::sum, options);
    expect_text(status, ErrorCode::timeout, {"all_reduce #0", "waiting for rank 2 ("});
  });
}

TEST(Deadline, CountsFromTheLastProgress) {
  CommunicatorConfig config;
  config.link = "20mbit,0ms";
  config.timeout = 1s;
  auto comms = make_world(2, config);
  AllReduceOptions options;
  options.codec = "none";
  options.algorithm = "direct";
  const auto began = std::chrono::steady_clock::now();
  for (const Status& status : reduce_on_all(comms, 2'000'000, options))
    EXPECT_TRUE(status.ok()) << status.text();
  // If not, this test shows nothing: the link is not as slow as it should be.
  EXPECT_GT(std::chrono::steady_clock::now() - began, 2 * config.timeout);
}

}  // namespace
}  // namespace ferrule::testing
