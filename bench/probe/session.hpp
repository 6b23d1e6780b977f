// All that ferrule-probe finds out, on one rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/probe/options.hpp"
#include "communicator/communicator.hpp"
#include "ferrule/status.hpp"
#include "rendezvous/meet.hpp"

namespace ferrule::probe {

/// Row after row, a row a rank: what it measured with each other rank; 0 with itself.
using Matrix = std::vector<double>;

struct CodecFindings {
  std::string spec;
  plan::CodecCost cost;  ///< of an element, while all ranks work
  double ratio = 1;      ///< fp32 bytes over encoded bytes
  double break_even_bits_per_s =
      0;  ///< large sums are faster with it where a rank's link is slower; may be infinite
};

struct SizeFindings {
  std::uint64_t bytes = 0;
  communicator::Preview raw;
  std::vector<communicator::Preview> automatic;  ///< what auto:CODEC becomes, a codec each
};

struct Findings {
  std::vector<transport::Peer> ranks;
  std::string transport;
  Matrix latency_s;
  Matrix bytes_per_s;  ///< from the row's rank to the column's
  communicator::Tuning tuning;
  std::vector<CodecFindings> codecs;
  std::vector<SizeFindings> sizes;

  double at(const Matrix& matrix, std::size_t row, std::size_t column) const {
    return matrix[row * ranks.size() + column];
  }
};

/// Measures; all ranks of the meeting call it, and find the same. `one_process`: they are threads.
Result<Findings> probe(const rendezvous::Meeting& meeting, const Options& options, bool one_process);

}  // namespace ferrule::probe
