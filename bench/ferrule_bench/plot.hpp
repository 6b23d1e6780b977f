// Pictures are drawn by a Python helper (bench/plot.py) from the JSON file.
#pragma once

#include <string>

#include "ferrule/status.hpp"

namespace ferrule::bench {

/// Draws `json_path` into `picture_path` with a script of the folder bench. The error says what is missing
/// and how to draw the picture later.
Status plot(const std::string& json_path, const std::string& picture_path,
            const std::string& script_name = "plot.py");

}  // namespace ferrule::bench
