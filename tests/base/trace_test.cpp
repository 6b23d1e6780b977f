// The trace file: valid JSON after every write, shared by ranks, never somebody else's file.
#include "base/trace.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

namespace ferrule {
namespace {

using namespace std::chrono_literals;

class TraceTest : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove(path_); }

  std::string text() const {
    std::ifstream file(path_);
    std::ostringstream all;
    all << file.rdbuf();
    return all.str();
  }
  static std::size_t count(const std::string& text, const std::string& word) {
    std::size_t found = 0;
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
    return found;
  }

  const std::string path_ = ::testing::TempDir() + "ferrule-trace-" + std::to_string(::getpid()) + ".json";
};

Trace::Event event_of(Trace::Kind kind, std::chrono::nanoseconds duration) {
  Trace::Event event;
  event.kind = kind;
  event.peer = 3;
  event.sequence = 7;
  event.slice = 2;
  event.bytes = 64512;
  event.begin = Trace::Clock::now();
  event.end = event.begin + duration;
  return event;
}

TEST_F(TraceTest, WithoutAFileNothingIsWritten) {
  Trace trace("", 0, 1);
  EXPECT_FALSE(trace.on());
  EXPECT_TRUE(trace.write().ok());
}

TEST_F(TraceTest, EventsHaveNamesRowsAndMicroseconds) {
  {
    Trace trace(path_, 4, 0xabc);
    trace.add(event_of(Trace::Kind::encode, 1500ns));
    trace.add(event_of(Trace::Kind::send, 2ms));
  }
  const std::string written = text();
  EXPECT_NE(written.find(R"("name":"encode","pid":4,"tid":1)"), std::string::npos) << written;
  EXPECT_NE(written.find(R"("dur":1.500)"), std::string::npos) << written;
  EXPECT_NE(written.find(R"("name":"wire","pid":4,"tid":5)"), std::string::npos) << written;
  EXPECT_NE(written.find(R"("peer":3)"), std::string::npos) << written;
  EXPECT_EQ(written.substr(0, 2), "[\n");
  EXPECT_EQ(written.substr(written.size() - 3), "\n]\n");
}

TEST_F(TraceTest, RanksThatWriteAtOnceShareTheFile) {
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 8; ++rank) {
    ranks.emplace_back([this, rank] {
      Trace trace(path_, rank, 1);
      for (int i = 0; i < 200; ++i) {
        trace.add(event_of(Trace::Kind::decode, 1us));
        if (i % 50 == 49) {
          EXPECT_TRUE(trace.write().ok());
        }
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  const std::string written = text();
  EXPECT_EQ(count(written, "\"decode\""), 1600U);
  EXPECT_EQ(count(written, "["), 1U);
  EXPECT_EQ(count(written, "]"), 1U);
  EXPECT_EQ(count(written, "{"), count(written, "}"));
}

TEST_F(TraceTest, AFileOfSomethingElseIsLeftAlone) {
  std::ofstream(path_) << "my thesis";
  Trace trace(path_, 0, 1);
  trace.add(event_of(Trace::Kind::wait, 1us));
  const Status status = trace.write();
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument);
  EXPECT_NE(status.text().find(path_), std::string::npos);
  EXPECT_EQ(text(), "my thesis");
}

TEST_F(TraceTest, AFolderThatIsNotThereIsNamed) {
  Trace trace("/nowhere/at/all/t%r.json", 5, 1);
  trace.add(event_of(Trace::Kind::wait, 1us));
  EXPECT_NE(trace.write().text().find("/nowhere/at/all/t5.json"), std::string::npos);
}

}  // namespace
}  // namespace ferrule
