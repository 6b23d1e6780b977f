// Results as JSON; the shape is results.schema.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/ferrule_bench/machine.hpp"
#include "bench/ferrule_bench/options.hpp"
#include "bench/ferrule_bench/results.hpp"
#include "ferrule/status.hpp"

namespace ferrule::bench {

inline constexpr int kJsonSchema = 1;

/// Where and how the results came about.
struct RunDescription {
  Machine machine;
  std::string command_line;
  std::string ferrule_version;
  std::string ferrule_info;  ///< ferruleInfo()'s text
  std::string git;           ///< of the tree that this program was built from; "unknown" outside one
  std::string started;       ///< UTC, ISO 8601
  MemoryFigures memory = {};
};

nlohmann::ordered_json json_report(const RunDescription& run, const Options& options,
                                   const std::vector<CaseResult>& results);

/// Replaces `path` in one step, so that no reader sees half a file.
Status write_json(const nlohmann::ordered_json& report, const std::string& path);

}  // namespace ferrule::bench
