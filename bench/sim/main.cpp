// ferrule-sim: how long an all-reduce would take on links that one does not have. See docs/simulator.md.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "bench/ferrule_bench/exit_codes.hpp"
#include "bench/ferrule_bench/json_report.hpp"
#include "bench/ferrule_bench/plot.hpp"
#include "bench/sim/options.hpp"
#include "bench/sim/report.hpp"
#include "bench/sim/run_cases.hpp"

namespace ferrule::sim {
namespace {

int fail(int code, const std::string& text) {
  fmt::print(stderr, "ferrule-sim: {}\n", text);
  return code;
}

std::string joined(int argc, char** argv) {
  std::string text;
  for (int i = 0; i < argc; ++i) text += (i == 0 ? "" : " ") + std::string(argv[i]);
  return text;
}

/// The plot is drawn from JSON; without -J that is a temporary file.
int write_and_plot(const Options& options, const nlohmann::ordered_json& report) {
  const bool temporary = options.json_path.empty();
  const std::string path =
      temporary
          ? (std::filesystem::temp_directory_path() / fmt::format("ferrule-sim-{}.json", getpid())).string()
          : options.json_path;
  if (temporary && options.plot_path.empty()) return bench::kExitOk;
  if (const Status written = bench::write_json(report, path); !written.ok()) {
    return fail(bench::kExitFailed, written.text());
  }
  Status drawn;
  if (!options.plot_path.empty()) drawn = bench::plot(path, options.plot_path, "sim/plot_sim.py");
  std::error_code error;
  if (temporary) std::filesystem::remove(path, error);
  return drawn.ok() ? bench::kExitOk : fail(bench::kExitPlot, drawn.text());
}

int run(int argc, char** argv) {
  const ParsedOptions parsed = parse_options(argc, argv);
  if (parsed.finished) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == bench::kExitOk ? stdout : stderr);
    return parsed.exit_code;
  }
  const Options& options = parsed.options;
  std::vector<CaseResult> results;
  const Status status = run_cases(options, [&](const CaseResult& result) {
    if (results.empty()) std::fputs(table_header(options).c_str(), stdout);
    std::fputs(table_row(result).c_str(), stdout);
    std::fflush(stdout);
    results.push_back(result);
  });
  if (!status.ok()) return fail(bench::kExitUsage, status.text());
  const bool any = std::any_of(results.begin(), results.end(), [](const auto& r) { return r.status.ok(); });
  if (!any) return fail(bench::kExitFailed, "nothing could be simulated: the lines above say why");
  return write_and_plot(options, json_report(options, joined(argc, argv), results));
}

}  // namespace
}  // namespace ferrule::sim

int main(int argc, char** argv) {
  try {
    return ferrule::sim::run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "ferrule-sim: {}\n", error.what());
    return ferrule::bench::kExitFailed;
  }
}
