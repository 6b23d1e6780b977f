// The command line of ferrule-probe.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule::probe {

struct Options {
  std::vector<std::string> codecs{"int4", "int8", "bf16"};  ///< lossy ones, canonical once checked
  std::string transport;  ///< empty: the FERRULE_TRANSPORT setting, or the default
  std::string link;       ///< empty: no throttle, or FERRULE_LINK
  int ranks = 0;          ///< local ranks to start; 0: this process is a rank that a launcher has started
  std::chrono::nanoseconds timeout{std::chrono::seconds(60)};
  std::string json_path;
  std::string save_path;  ///< for FERRULE_TUNING=file:
};

/// What to do after reading the command line.
struct ParsedOptions {
  Options options;
  bool finished = false;  ///< print `text` and end with `exit_code` (help, or a mistake)
  int exit_code = 0;
  std::string text;
};

/// Codecs, transport and files are checked too, so that a mistake is said once, before any rank starts.
ParsedOptions parse_options(int argc, const char* const* argv);

}  // namespace ferrule::probe
