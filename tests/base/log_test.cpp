// Log lines, seen from outside: this program starts itself (`log_test --child`) with other variables, because
// a process reads its log settings once.
#include "base/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <regex>
#include <string>
#include <thread>
#include <vector>

#include "base/settings.hpp"

namespace ferrule {
namespace {

using testing::HasSubstr;
using testing::Not;
namespace fs = std::filesystem;

int child(std::string_view what) {
  if (what == "levels") {
    log::warn("a warning");
    log::set_thread_rank(3);
    log::info("some information {}", 42);
    log::trace("one\ntwo");
  } else if (what == "settings") {
    for (int i = 0; i < 3; ++i) (void)Settings::from_environment();
  } else {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([t] {
        log::set_thread_rank(t);
        for (int i = 0; i < 200; ++i)
          log::warn("start {} end", std::string(6000, static_cast<char>('a' + t)));
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  return 0;
}

class Log : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "ferrule-log-XXXXXX").string();
    ASSERT_NE(::mkdtemp(path.data()), nullptr);
    folder_ = path;
  }
  void TearDown() override { fs::remove_all(folder_); }

  // Runs a child with these variables; its two streams end up in files of the folder.
  void run(const std::string& variables, const std::string& what) const {
    const std::string program = fs::read_symlink("/proc/self/exe");
    const std::string command = "env -u FERRULE_DEBUG -u FERRULE_DEBUG_FILE " + variables + " " + program +
                                " --child " + what + " >" + (folder_ / "out").string() + " 2>" +
                                (folder_ / "err").string();
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  std::string content(const fs::path& path) const {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::string err() const { return content(folder_ / "err"); }

  fs::path folder_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST_F(Log, LinesHaveTheShapeThatPeopleKnow) {
  run("FERRULE_DEBUG=Trace", "levels");
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  const std::string start = "^" + std::string(host.data()) + ":([0-9]+):\\1 ";
  const auto lines = lines_of(err());
  ASSERT_EQ(lines.size(), 4u) << err();
  EXPECT_TRUE(std::regex_match(lines[0], std::regex(start + "\\[-\\] FERRULE WARN a warning"))) << lines[0];
  EXPECT_TRUE(std::regex_match(lines[1], std::regex(start + "\\[3\\] FERRULE INFO some information 42")))
      << lines[1];
  EXPECT_TRUE(std::regex_match(lines[2], std::regex(start + "\\[3\\] FERRULE TRACE one"))) << lines[2];
  EXPECT_TRUE(std::regex_match(lines[3], std::regex(start + "\\[3\\] FERRULE TRACE two"))) << lines[3];
  EXPECT_EQ(content(folder_ / "out"), "");
}

TEST_F(Log, LevelsHideWhatIsBelowThem) {
  run("FERRULE_DEBUG=info", "levels");
  EXPECT_THAT(err(),
              testing::AllOf(HasSubstr("WARN a warning"), HasSubstr("INFO some"), Not(HasSubstr("TRACE"))));
  for (const char* variables : {"", "FERRULE_DEBUG=", "FERRULE_DEBUG=warn"}) {
    run(variables, "levels");
    EXPECT_THAT(err(),
                testing::AllOf(HasSubstr("WARN a warning"), Not(HasSubstr("INFO")), Not(HasSubstr("TRACE"))));
  }
}

TEST_F(Log, ABadLevelIsWarnedOfOnceAndActsAsWarn) {
  run("FERRULE_DEBUG=loud", "levels");
  const auto lines = lines_of(err());
  ASSERT_EQ(lines.size(), 2u) << err();
  EXPECT_THAT(lines[0], testing::AllOf(HasSubstr("FERRULE_DEBUG='loud'"), HasSubstr("WARN, INFO, TRACE")));
  EXPECT_THAT(lines[1], HasSubstr("a warning"));
}

TEST_F(Log, FilesAreNamedAfterHostAndProcess) {
  run("FERRULE_DEBUG=INFO FERRULE_DEBUG_FILE=" + (folder_ / "log-%h-%p-%%-%x").string(), "levels");
  EXPECT_EQ(err(), "");
  std::array<char, 256> host{};
  ASSERT_EQ(::gethostname(host.data(), host.size() - 1), 0);
  int found = 0;
  for (const auto& entry : fs::directory_iterator(folder_)) {
    const std::string name = entry.path().filename();
    if (!std::regex_match(name, std::regex("log-" + std::string(host.data()) + "-[0-9]+-%-%x"))) continue;
    ++found;
    EXPECT_THAT(content(entry.path()), HasSubstr("some information 42"));
  }
  EXPECT_EQ(found, 1);
}

TEST_F(Log, AFileThatCannotBeOpenedIsSaidOnStderr) {
  run("FERRULE_DEBUG_FILE=/no/such/folder/log", "levels");
  EXPECT_THAT(err(), testing::AllOf(HasSubstr("/no/such/folder/log"), HasSubstr("No such file"),
                                    HasSubstr("a warning")));
}

TEST_F(Log, LongLinesOfManyThreadsStayWhole) {
  run("FERRULE_DEBUG_FILE=" + (folder_ / "log").string(), "threads");
  const auto lines = lines_of(content(folder_ / "log"));
  ASSERT_EQ(lines.size(), 800u);
  for (const std::string& line : lines) {
    const std::size_t at = line.find("start ");
    ASSERT_NE(at, std::string::npos);
    const std::string text = line.substr(at + 6, 6000);
    EXPECT_EQ(text, std::string(6000, text[0]));
    EXPECT_EQ(line.substr(at + 6006), " end");
    EXPECT_THAT(line, HasSubstr("[" + std::to_string(text[0] - 'a') + "] FERRULE WARN "));
  }
}

TEST_F(Log, UnknownSettingsAreWarnedOfOnce) {
  run("FERRULE_TIMOUT=3 FERRULE_XYZZY=1", "settings");
  const auto lines = lines_of(err());
  ASSERT_EQ(lines.size(), 2u) << err();
  EXPECT_THAT(lines[0],
              testing::AllOf(HasSubstr("FERRULE_TIMOUT"), HasSubstr("did you mean FERRULE_TIMEOUT?")));
  EXPECT_THAT(lines[1], testing::AllOf(HasSubstr("FERRULE_XYZZY"), Not(HasSubstr("did you mean"))));
}

}  // namespace

int log_test_child(std::string_view what) { return child(what); }

}  // namespace ferrule

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--child") return ferrule::log_test_child(argv[2]);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
