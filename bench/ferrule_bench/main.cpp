// ferrule-bench: times and checks compressed all-reduces, with nccl-tests' flags and table. See
// docs/benchmarking.md.
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>

#include "bench/ferrule_bench/exit_codes.hpp"
#include "bench/ferrule_bench/local_ranks.hpp"
#include "bench/ferrule_bench/names_check.hpp"
#include "bench/ferrule_bench/options.hpp"
#include "bench/ferrule_bench/plot.hpp"

namespace ferrule::bench {
namespace {

std::string joined(int argc, char** argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) text += (i == 0 ? "" : " ") + std::string(argv[i]);
  return text;
}

/// The plot is drawn from JSON; without -J that is a temporary file.
std::string temporary_json_path() {
  return (std::filesystem::temp_directory_path() / fmt::format("ferrule-bench-{}.json", getpid())).string();
}

int run_and_plot(Options options, const std::string& command_line) {
  const bool temporary = options.json_path.empty() && !options.plot_path.empty();
  if (temporary) options.json_path = temporary_json_path();
  int code = run_ranks(options, command_line);
  std::error_code error;
  // Under a launcher only rank 0 has a file to draw. Wrong results are drawn too: that is when one wants to
  // look.
  const bool has_results = code == kExitOk || code == kExitWrong;
  if (!options.plot_path.empty() && has_results && std::filesystem::exists(options.json_path, error)) {
    if (const Status status = plot(options.json_path, options.plot_path); !status.ok()) {
      fmt::print(stderr, "ferrule-bench: {}\n", status.text());
      if (code == kExitOk) code = kExitPlot;
    }
  }
  if (temporary) std::filesystem::remove(options.json_path, error);
  return code;
}

int run(int argc, char** argv) {
  ParsedOptions parsed = parse_options(argc, argv);
  if (parsed.finished) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == kExitOk ? stdout : stderr);
    return parsed.exit_code;
  }
  for (const std::string& note : parsed.options.notes) fmt::print(stderr, "ferrule-bench: {}\n", note);
  if (const Status status = check_names(parsed.options); !status.ok()) {
    fmt::print(stderr, "ferrule-bench: {}\n", status.text());
    return kExitUsage;
  }
  return run_and_plot(std::move(parsed.options), joined(argc, argv));
}

}  // namespace
}  // namespace ferrule::bench

int main(int argc, char** argv) {
  try {
    return ferrule::bench::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ferrule-bench: {}\n", error.what());
    return ferrule::bench::kExitFailed;
  }
}
