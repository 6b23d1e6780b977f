// Every combination that a command line asks for, simulated.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/sim/options.hpp"
#include "bench/sim/simulate.hpp"
#include "ferrule/status.hpp"

namespace ferrule::sim {

struct CaseResult {
  std::int32_t world = 1;
  std::uint64_t bytes = 0;  ///< whole elements
  Codecs codecs;            ///< as used: "none" where the one asked for would not make the tensor smaller
  std::string algorithm;
  Status status;  ///< why there is no answer
  Answer answer;

  std::string codec() const { return text_of(codecs); }
  double algbw_gbps() const { return ratio(static_cast<double>(bytes), answer.outcome.time_ns); }
  double busbw_gbps() const { return algbw_gbps() * 2 * (world - 1) / world; }

 private:
  static double ratio(double a, double b) { return b > 0 ? a / b : 0; }
};

/// Codec specs to codecs, one for each level, with rates. Error: names a codec that does not exist or does
/// not take the element type.
Result<Codecs> make_codecs(const std::string& text, const Options& options);

/// Calls `report` for each case, in order: worlds, sizes, algorithms, codecs. Error: bad names, or a place
/// that is none; what cannot be simulated is a case with a bad status.
Status run_cases(const Options& options, const std::function<void(const CaseResult&)>& report);

}  // namespace ferrule::sim
