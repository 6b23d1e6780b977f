// Which cases a command line asks for.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/ferrule_bench/options.hpp"
#include "bench/ferrule_bench/results.hpp"
#include "ferrule/status.hpp"

namespace ferrule::bench {

/// Codecs other than "none" take float sums and averages only.
bool takes(const std::string& codec, DType dtype, ReduceOp op);

/// Cases that are measured together: one element type and operation, all codecs and algorithms.
struct CaseGroup {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::vector<Case> cases;  ///< count is still 0
};

struct CaseList {
  std::vector<CaseGroup> groups;
  std::vector<std::string> skipped;  ///< one line for each combination that a codec does not take
};

/// An error if nothing is left.
Result<CaseList> list_cases(const Options& options);

}  // namespace ferrule::bench
