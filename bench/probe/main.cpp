// ferrule-probe: measures links and codecs, and says what Ferrule would choose. See docs/benchmarking.md.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <string>

#include "bench/ferrule_bench/exit_codes.hpp"
#include "bench/probe/local_ranks.hpp"
#include "bench/probe/options.hpp"

int main(int argc, char** argv) {
  using namespace ferrule;  // NOLINT: this is the program
  try {
    const probe::ParsedOptions parsed = probe::parse_options(argc, argv);
    if (parsed.finished) {
      std::fputs(parsed.text.c_str(), parsed.exit_code == bench::kExitOk ? stdout : stderr);
      return parsed.exit_code;
    }
    std::string command_line;
    for (int i = 0; i < argc; ++i) command_line += (i == 0 ? "" : " ") + std::string(argv[i]);
    return probe::run_ranks(parsed.options, command_line);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ferrule-probe: {}\n", error.what());
    return bench::kExitFailed;
  }
}
