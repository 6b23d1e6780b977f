// Findings for programs; the shape is findings.schema.json.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "bench/probe/session.hpp"

namespace ferrule::probe {

inline constexpr int kJsonSchema = 1;

nlohmann::ordered_json json_report(const Findings& findings, const std::string& command_line);

}  // namespace ferrule::probe
