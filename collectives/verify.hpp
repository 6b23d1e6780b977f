// The verifier: executes the schedules of all ranks with symbols instead of numbers, and proves what the
// library promises of every algorithm.
//
// * Every rank that brings a chunk (Contract) has its contribution in every output of it exactly once, nobody
//   else has; every rank that gets it has an output, nobody else has.
// * All ranks' outputs of a chunk are the same bits: the same terms added in the same order, where encoded
// bytes
//   are the same if they come from the same value, the same residual and the same random bits.
// * Each slot is written once, before it is read, and is read at least once.
// * Each (rank, chunk) residual is added at most once, and of each encoded value exactly one rank keeps the
// error.
// * No two encoded values of a chunk are rounded with the same random bits.
// * A rank's own input is not needed after its output has been written (so the tensor may be reduced in
// place).
// * Between two ranks the k-th send and the k-th receive carry the same chunk, and the receiver decodes it
// with
//   the codec of the level that encoded it; nothing stays unreceived.
// * No deadlock even if a batch completes only when the peers have posted all its counterparts.
//
// Cost: O(S log S) for S steps of all ranks together, plus the terms of all sums; about 40 ms for 64 ranks of
// `direct` and less than 1 ms for `tree`. It allocates; it is meant for tests, tools and new algorithms, not
// for the hot path.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/schedule.hpp"
#include "ferrule/status.hpp"

namespace ferrule::collectives {

enum class Fault : std::uint8_t {
  malformed,              ///< a field is out of range, or the schedules do not belong together
  unmatched_send,         ///< the peer has no receive for it
  unmatched_recv,         ///< the peer has no send for it
  chunk_mismatch,         ///< the k-th send and the k-th receive name different chunks
  level_mismatch,         ///< the k-th receive expects another codec than the slot that meets it is in
  deadlock,               ///< batches wait for each other
  slot_rewritten,         ///< a slot is written a second time
  slot_unwritten,         ///< a slot is read before it is written, or in the batch that receives it
  slot_of_other_chunk,    ///< a slot is read as another chunk than it was written as
  slot_unused,            ///< a slot is written and never read
  sum_empty,              ///< an empty sum is encoded or stored
  sum_unused,             ///< something was added to a sum and the sum never read
  input_overwritten,      ///< own input is read after the output was written
  output_missing,         ///< a chunk has no output
  output_rewritten,       ///< a chunk's output is written twice
  output_unwanted,        ///< a rank writes the output of a chunk that it does not get
  input_absent,           ///< a rank reads an input that it does not bring
  contribution_missing,   ///< an output lacks a rank's input
  contribution_repeated,  ///< an output has a rank's input twice
  replicas_differ,        ///< two ranks' outputs of a chunk are not the same bits
  residual_reused,        ///< a (rank, chunk) residual is added twice
  residual_unused,  ///< an error is kept in a (rank, chunk) residual that is never added: it is lost for good
  error_dropped,    ///< nobody keeps the error of an encode
  error_kept_twice,        ///< several ranks keep the error of one encoded value
  noise_shared,            ///< two values are rounded with the same random bits
  wrong_order_claim,       ///< AlgorithmDesc::rank_order does not hold
  wrong_encodes_claim,     ///< AlgorithmDesc::encodes is not what the schedules contain
  wrong_chunks_sent_claim  ///< AlgorithmDesc::chunks_sent is not what the schedules contain
};

/// The fault's stable name, e.g. "slot_unwritten".
std::string_view fault_name(Fault fault);

/// Where a step is; step -1: the whole schedule, rank -1: all of them.
struct Place {
  std::int32_t rank = -1;
  std::int32_t step = -1;
};

struct Finding {
  Fault fault = Fault::malformed;
  Place place;
  std::string text;  ///< names fault, rank, step and reason
};

/// What the verifier has found. Checks that build on each other stop at the first kind that fails, so that
/// the first finding is a cause and not a consequence.
struct Report {
  std::vector<Finding> findings;
  // Measured on right schedules only:
  std::uint32_t encodes = 0;              ///< longest chain of encodes that a contribution passes
  std::vector<std::uint32_t> encodes_at;  ///< the most encodes of each level in any such chain
  std::uint32_t chunks_sent = 0;          ///< sends of the rank that sends most
  bool rank_order = false;                ///< every output adds the contributions in rank order

  bool ok() const { return findings.empty(); }
  bool has(Fault fault) const;
  /// Success, or `internal` with the text of the first findings.
  Status status() const;
};

/// schedules[r] is rank r's. Any content is accepted: what is malformed is a finding.
Report verify(std::span<const Schedule> schedules);
/// The same for any collective; Contract::world is that of the schedules.
Report verify(std::span<const Schedule> schedules, Collective collective, std::int32_t root);
/// Builds the schedules of all ranks, and checks the claims of the algorithm as well.
Report verify(const AlgorithmDesc& algorithm, const Topology& topology, std::int32_t root = 0);

/// The schedules of all ranks, by rank.
std::vector<Schedule> build_all(const AlgorithmDesc& algorithm, const Topology& topology,
                                std::int32_t root = 0);

}  // namespace ferrule::collectives
