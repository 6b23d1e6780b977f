// What the environment asks of the preload. Read once; ranks compare it when they form a group.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ferrule::mpi {

enum class SummaryTo { nobody, rank_zero, all };

struct Options {
  bool asked = false;         ///< FERRULE_CODEC is set; if not, every call is passed on
  std::string codec;          ///< e.g. "int4"; "none" runs exact sums in rank order
  std::size_t min_bytes = 0;  ///< smaller tensors are passed on
  std::uint64_t measure = 0;  ///< the error of the first and then of every n-th compressed call is measured
  SummaryTo summary = SummaryTo::all;
  std::int64_t timeout_ns = 0;  ///< deadline of a collective

  /// What must be equal on all ranks, as a text that people can compare.
  std::string agreement() const;
};

/// Of this process, read at the first call. A value that makes no sense ends the process with a text that
/// names it: a program that runs otherwise than it was asked to is worse.
const Options& options();

}  // namespace ferrule::mpi
