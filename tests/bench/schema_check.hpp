// A checker for the part of JSON Schema that results.schema.json uses; no schema library comes with Debian's
// CMake packages. A keyword that it does not know is reported, so that the schema cannot grow past it
// unnoticed.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace ferrule::bench {

nlohmann::json read_json(const std::string& path);

/// One text for each violation; empty if `document` fits `schema`.
std::vector<std::string> violations(const nlohmann::json& schema, const nlohmann::json& document);

}  // namespace ferrule::bench
