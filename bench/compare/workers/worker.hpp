// One rank of a contestant. It sleeps reading commands from the driver's socket, one line each, and answers
// each with one line of JSON:
//
//   prepare BYTES REPEAT SEED          allocates and fills; {"ok":true}
//   run WARMUP ITERATIONS IN_PLACE     {"times_ns":[...]}: per iteration, of REPEAT all-reduces
//   verify IN_PLACE                    one iteration, judged: {"wrong":..,"digest":..,...}
//   release                            frees the tensors; {"ok":true}
//   quit                               no answer
//
// A command that fails is answered with {"error":"..."}.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "ferrule/status.hpp"

namespace ferrule::compare {

/// The library that is measured, on this rank.
class Contestant {
 public:
  Contestant() = default;
  virtual ~Contestant() = default;
  Contestant(const Contestant&) = delete;
  Contestant& operator=(const Contestant&) = delete;

  virtual Status barrier() = 0;
  /// The sum over ranks; send == recv is in place.
  virtual Status all_reduce(const float* send, float* recv, std::size_t count) = 0;

  /// Elements that share a scale; 1 for what is exact.
  virtual std::size_t block() const { return 1; }
  /// Largest allowed error of each element, from the magnitudes of data.hpp. The default is exact.
  virtual Status bounds(std::span<const double> magnitudes, std::span<double> bounds) const;
  /// Wire bytes of this rank so far, headers included; 0 where nobody counts.
  virtual std::uint64_t bytes_sent() const { return 0; }
};

struct WorkerId {
  int rank = 0;
  int ranks = 1;
  std::string socket;  ///< path of the driver's socket
  std::string about;   ///< what runs here, for the report
};

/// Until the driver says quit, or has gone. Returns the exit code of the process.
int serve(const WorkerId& id, Contestant& contestant);

/// The value after `name` among the arguments, else `otherwise`.
std::string argument(int argc, char** argv, const std::string& name, const std::string& otherwise = "");

}  // namespace ferrule::compare
