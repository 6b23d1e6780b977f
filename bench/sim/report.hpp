// Results as a table and as JSON.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "bench/sim/options.hpp"
#include "bench/sim/run_cases.hpp"

namespace ferrule::sim {

inline constexpr int kJsonSchema = 1;

// Each ends with a newline.
std::string table_header(const Options& options);
std::string table_row(const CaseResult& result);

/// "full", "rotation+" (some slices extrapolated), ...
std::string mode_text(const Answer& answer);

nlohmann::ordered_json json_report(const Options& options, const std::string& command_line,
                                   const std::vector<CaseResult>& results);

}  // namespace ferrule::sim
