// FERRULE_TRACE: what a collective leaves in the file.
#include <fstream>

#include "core/world.hpp"

namespace ferrule::testing {
namespace {

std::size_t count(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

TEST(CollectiveTrace, HasEveryRankAndSlice) {
  const std::string path =
      ::testing::TempDir() + "ferrule-collective-trace-" + std::to_string(::getpid()) + ".json";
  ::setenv("FERRULE_TRACE", path.c_str(), 1);
  ::setenv("FERRULE_SLICE", "4K", 1);
  {
    auto comms = make_world(2);
    on_all_ranks(comms, [](int, Communicator& comm) {
      std::vector<float> values(1 << 16, 1.0F);
      AllReduceOptions options;
      options.codec = "int4";
      options.algorithm = "direct";
      ASSERT_TRUE(comm.all_reduce({values.data(), values.size()}, ReduceOp::sum, options).ok());
    });
  }
  ::unsetenv("FERRULE_TRACE");
  ::unsetenv("FERRULE_SLICE");
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  const std::string trace = text.str();
  // A chunk of 32,768 elements is 16,896 bytes: five slices. In each, a rank encodes its part of the other's
  // chunk and the sum of its own, and decodes both.
  EXPECT_EQ(count(trace, "\"name\":\"all_reduce\""), 2U) << trace.substr(0, 500);
  EXPECT_EQ(count(trace, "\"name\":\"encode\""), 2U * 5 * 2);
  EXPECT_EQ(count(trace, "\"name\":\"decode\""), 2U * 5 * 2);
  EXPECT_EQ(count(trace, "\"name\":\"wire\""), 2U * 5 * 2);
  for (const char* rank : {"rank 0", "rank 1"}) EXPECT_EQ(count(trace, rank), 1U);
}

}  // namespace
}  // namespace ferrule::testing
