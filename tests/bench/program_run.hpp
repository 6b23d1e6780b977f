// Runs a program of bench/ as a user would.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ferrule::bench {

struct ProgramRun {
  int exit_code = -1;  ///< -1: it died of a signal
  std::string out;
  std::string err;
  nlohmann::json json;  ///< of -J; discarded if there is none
};

/// ferrule-bench. `arguments` as a shell would read them; "-J FILE" is added.
ProgramRun run_program(const std::string& arguments);
/// The same of another program; variables may stand before its path.
ProgramRun run_program_at(const std::string& program, const std::string& arguments);

/// A file that this test may write, and that nothing else uses.
std::string scratch_path(const std::string& name);

}  // namespace ferrule::bench
