// The tensors of one rank, and the all-reduces on them. Made once for the largest size, every page touched,
// so that no timed iteration pays for memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/ferrule_bench/data.hpp"
#include "bench/ferrule_bench/options.hpp"
#include "bench/ferrule_bench/results.hpp"
#include "ferrule/ferrule.hpp"

namespace ferrule::bench {

enum class Place { out_of_place, in_place };

/// Zeroed memory, aligned to 64 bytes.
class Buffer {
 public:
  static Result<Buffer> allocate(std::size_t bytes);
  std::byte* data() const { return data_.get(); }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
};

/// A case under way: its residuals, one for each operation of an iteration, and its step.
struct CaseState {
  Case what;
  std::vector<Residual> residuals;  ///< empty without error feedback
  std::uint64_t step = 0;

  static Result<CaseState> create(const Case& what, int agg_iters);
  void clear_residuals();
};

/// What a case runs: its own codec and algorithm, or what "auto" became.
struct Choice {
  std::string codec;
  std::string algorithm;
};

class Workspace {
 public:
  /// For tensors of up to `max_bytes`.
  static Result<Workspace> create(const Communicator& comm, const Options& options, std::uint64_t max_bytes);

  /// Fills the input with this rank's data. All cases until the next call must have this dtype, op and count.
  void fill(const DataSpec& spec, std::uint64_t count);
  /// In place: puts the input back where the last iteration left its result. Never timed.
  void prepare(const CaseState& state, Place place);
  /// Overwrites the first result, so that an all-reduce that writes nothing cannot pass a check on old
  /// results.
  void spoil_result(const CaseState& state);
  /// One iteration: agg_iters all-reduces, each on tensors of its own.
  Status iterate(CaseState& state, Place place);
  /// One all-reduce, into the first result.
  Status reduce_once(CaseState& state, Place place);

  /// One more all-reduce, which says what the choices left to the library became.
  Result<Choice> find_choice(CaseState& state);

  const std::byte* input() const { return input_.data(); }
  const std::byte* result() const { return results_.front().data(); }

 private:
  Workspace(const Communicator& comm, const Options& options) : comm_(&comm), options_(&options) {}
  /// Begins the case's operation; waits for it unless `later` is there.
  Status start(const CaseState& state, Place place, std::size_t lane, Work* later);
  Status start_parts(const Case& what, const void* source, std::byte* target,
                     const CollectiveOptions& options, Work* later) const;
  Status exchange(const Case& what, const void* source, std::byte* target, Work* later) const;
  AllReduceOptions options_of(const CaseState& state, std::size_t lane) const;

  const Communicator* comm_;
  const Options* options_;
  Buffer input_;
  std::vector<Buffer> results_;  ///< one for each all-reduce of an iteration: they may overlap in time
};

}  // namespace ferrule::bench
