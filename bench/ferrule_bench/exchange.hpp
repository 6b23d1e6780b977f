// What ranks tell each other about a measurement, over the communicator that is measured: always exact, never
// timed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ferrule/ferrule.hpp"

namespace ferrule::bench {

/// The options of every exchange, whatever codec and algorithm the FERRULE_* settings choose by default.
AllReduceOptions exact_options();

/// Nobody leaves before everybody has come.
Status barrier(const Communicator& comm);

/// Element by element over all ranks, which must give as many values.
Result<std::vector<double>> combine(const Communicator& comm, std::vector<double> values, ReduceOp op);
Result<std::vector<std::int64_t>> combine(const Communicator& comm, std::vector<std::int64_t> values,
                                          ReduceOp op);

/// Every rank's text, cut to kMaxTextBytes, in order of rank.
Result<std::vector<std::string>> gather_texts(const Communicator& comm, const std::string& text);
inline constexpr std::size_t kMaxTextBytes = 255;

}  // namespace ferrule::bench
