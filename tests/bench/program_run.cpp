#include "bench/program_run.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "bench/schema_check.hpp"

namespace ferrule::bench {
namespace {

std::string contents(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string scratch_path(const std::string& name) {
  return testing::TempDir() + "/ferrule_bench_" + std::to_string(getpid()) + "_" + name;
}

ProgramRun run_program(const std::string& arguments) {
  return run_program_at(FERRULE_BENCH_PROGRAM, arguments);
}

ProgramRun run_program_at(const std::string& program, const std::string& arguments) {
  const std::string out = scratch_path("out");
  const std::string err = scratch_path("err");
  const std::string json = scratch_path("json");
  const std::string command = program + " " + arguments + " -J " + json + " >" + out + " 2>" + err;
  const int status = std::system(command.c_str());
  ProgramRun run;
  if (WIFEXITED(status)) run.exit_code = WEXITSTATUS(status);
  run.out = contents(out);
  run.err = contents(err);
  run.json = read_json(json);
  for (const std::string& path : {out, err, json}) std::filesystem::remove(path);
  return run;
}

}  // namespace ferrule::bench
