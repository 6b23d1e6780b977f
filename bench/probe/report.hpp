// Findings for people.
#pragma once

#include <string>

#include "bench/probe/session.hpp"

namespace ferrule::probe {

std::string text_report(const Findings& findings);

/// The contents of a tuning file, with a comment on where the figures are from.
std::string tuning_file(const Findings& findings);

}  // namespace ferrule::probe
