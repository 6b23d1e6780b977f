// Mistakes that can be found before any rank is started, so that they are reported once and at once.
#pragma once

#include "bench/ferrule_bench/options.hpp"
#include "ferrule/status.hpp"

namespace ferrule::bench {

/// Codecs, algorithms and transport exist in this build; the JSON file and the picture can be written.
Status check_names(const Options& options);

}  // namespace ferrule::bench
