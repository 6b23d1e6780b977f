// Runs ferrule-sim as users do.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

namespace ferrule::sim {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string scratch_path(const std::string& name) {
  return testing::TempDir() + "/ferrule_sim_" + std::to_string(getpid()) + "_" + name;
}

std::string take(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  std::filesystem::remove(path);
  return text.str();
}

struct ProgramRun {
  int exit_code = -1;
  std::string out;
  std::string err;
};

ProgramRun run_command(const std::string& command) {
  const std::string out = scratch_path("out");
  const std::string err = scratch_path("err");
  const int status = std::system((command + " >" + out + " 2>" + err).c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, take(out), take(err)};
}

ProgramRun run_program(const std::string& arguments) {
  return run_command(std::string(FERRULE_SIM_PROGRAM) + " " + arguments);
}

nlohmann::json take_json(const std::string& path) {
  return nlohmann::json::parse(take(path), nullptr, false);
}

TEST(SimProgram, TensOfThousandsOfRanks) {
  const std::string json = scratch_path("json");
  const ProgramRun run = run_program(
      "--ranks 65536 -b 64M --codec none --codec int4 --rates free --algo direct --algo ring --algo tree "
      "--max-messages 5e6 -J " +
      json);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_THAT(run.err, IsEmpty());
  const auto report = take_json(json);
  ASSERT_EQ(report["results"].size(), 6u) << run.out;
  for (const auto& result : report["results"]) {
    EXPECT_EQ(result["ranks"], 65536);
    EXPECT_GT(result["time_us"], 0);
    EXPECT_EQ(result["mode"], result["algo"] == "tree" ? "full" : "rotation");
  }
}

TEST(SimProgram, MistakesEndWithTwoAndAreSaidOnce) {
  for (const char* arguments :
       {"--ranks 0", "--codec int99", "--algo sideways", "--link 1gbit,1gbit", "--slow 9:1gbit",
        "--level 3:1gbit --level 2:1gbit", "--codec none/none", "-b 1Q"}) {
    const ProgramRun run = run_program(arguments);
    EXPECT_EQ(run.exit_code, 2) << arguments << run.err;
    EXPECT_THAT(run.out, IsEmpty()) << arguments;
    EXPECT_THAT(run.err, HasSubstr("ferrule-sim: ")) << arguments;
  }
}

TEST(SimProgram, NothingSimulatedOrWrittenEndsWithThree) {
  ProgramRun run = run_program("--ranks 4096 --full --algo direct --rates free -b 64M");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.out, HasSubstr("every rank needs fewer ranks"));
  run = run_program("--ranks 2 --rates free -J /nonexistent/folder/a.json");
  EXPECT_EQ(run.exit_code, 3);
  EXPECT_THAT(run.err, HasSubstr("/nonexistent/folder/a.json"));
}

TEST(SimProgram, DrawsAPictureOrSaysWhatIsMissing) {
  const std::string picture = scratch_path("picture.svg");
  const ProgramRun run =
      run_program("--ranks 2-16 -b 1K -e 64K -f 8 --codec none --codec int4 --plot " + picture);
  if (run.exit_code == 0) {
    EXPECT_GT(std::filesystem::file_size(picture), 1000u);
    std::filesystem::remove(picture);
  } else {
    EXPECT_EQ(run.exit_code, 4);
    EXPECT_THAT(run.err, HasSubstr("no Python with matplotlib"));
  }
}

// Times are for people to look at. Bytes on the wire are the same to the byte, whatever the machine does.
TEST(SimProgram, RealRunsSendTheSimulatedBytes) {
  const std::string json = scratch_path("json");
  const std::string folder = std::filesystem::path(FERRULE_BENCH_PROGRAM).parent_path().string();
  const ProgramRun run =
      run_command(std::string(FERRULE_SIM_FOLDER) + "/check_against_runs --programs " + folder +
                  " --ranks 2 --ranks 3 --link 1gbit,1ms --size 300K --iters 1 --json " + json);
  if (run.exit_code == 127) GTEST_SKIP() << "no python3 here";
  ASSERT_EQ(run.exit_code, 0) << run.out << run.err;
  const auto report = take_json(json);
  ASSERT_EQ(report["cases"].size(), 2u * 2 * 5);
  for (const auto& one : report["cases"]) {
    EXPECT_EQ(one["wire_bytes"].get<double>(), one["simulated_wire_bytes"].get<double>()) << one;
    EXPECT_GT(one["ratio_median"], 0) << one;
  }
}

}  // namespace
}  // namespace ferrule::sim
