// A schedule is data: the steps that one rank walks to take part in a collective. It knows ranks, chunks and
// slots; it knows no codec, no transport, no device and no element. That is what lets one verifier prove it,
// one simulator time it and one executor run it.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/collective.hpp"
#include "collectives/topology.hpp"

namespace ferrule::collectives {

/// The six operations.
///
/// Each rank has, for every chunk, its own input and a sum that starts empty. A slot holds encoded bytes of
/// one chunk and is written once (by encode, hop or recv).
enum class Operation : std::uint8_t {
  encode,      ///< slot = encode(source), where the source is the rank's own input or the chunk's sum (then
               ///< emptied)
  send,        ///< the slot's bytes go to `peer`
  recv,        ///< slot = bytes from `peer`
  decode_add,  ///< sum of chunk += decode(slot), or += own input (slot == kOwnInput). Order is part of the
               ///< schedule.
  decode,      ///< output of chunk = decode(slot), or = the chunk's sum (slot == kSum)
  hop,         ///< slot = encode(decode(from) + own input)
};

/// What an encode does with the residual (DESIGN of the ledger: every encode's error is kept by exactly one
/// rank).
enum class ErrorKept : std::uint8_t {
  add,     ///< encode value + residual, keep the error: this rank's one and only use of the residual of this
           ///< chunk
  charge,  ///< the same value is encoded by several ranks; this one keeps the error, and does not add the
           ///< residual
  none,    ///< the same value is encoded by several ranks; another one keeps the error
};

inline constexpr std::uint32_t kOwnInput = std::numeric_limits<std::uint32_t>::max();
inline constexpr std::uint32_t kSum = kOwnInput - 1;

struct Step {
  Operation operation = Operation::encode;
  ErrorKept error = ErrorKept::add;  ///< encode and hop only
  /// encode, hop and recv: which of the plan's codecs the slot's bytes are in, 0 the innermost (Topology).
  /// Only algorithms that use the topology have more than level 0.
  std::uint8_t level = 0;
  std::uint32_t chunk = 0;
  std::uint32_t slot = 0;          ///< slot written (encode, hop, recv) or read (send, decode_add, decode)
  std::uint32_t from = kOwnInput;  ///< encode: kOwnInput or kSum. hop: the slot that is read.
  std::int32_t peer = -1;          ///< send and recv only
  /// encode and hop: whose random bits round the value. The rank itself, except where several ranks encode
  /// the same value and must get the same bytes. No two values of a chunk share it, so it may be world or
  /// more: a key of nobody's rank.
  std::int32_t noise_rank = -1;

  friend bool operator==(const Step&, const Step&) = default;
};

/// All steps of one rank, in order. Between two ranks the k-th send matches the k-th recv. A run of adjacent
/// sends and receives is one batch: it may complete only when all of it has matched.
struct Schedule {
  std::int32_t rank = 0;
  std::int32_t world = 1;
  std::uint32_t chunks = 1;  ///< what they are: see Collective. Some may be empty.
  std::uint32_t slots = 0;   ///< slot numbers are below this
  std::vector<Step> steps;
};

/// An algorithm: a pure function from (rank, topology) to a schedule, and what is known about it in closed
/// form. A number of ranks is a flat topology.
struct AlgorithmDesc {
  std::string_view name;
  /// 0 <= rank < topology.world().
  Schedule (*build)(std::int32_t rank, const Topology& topology);
  /// Longest chain of encodes that a contribution passes on its way to the output (direct: 2). 0 for a world
  /// of 1.
  std::uint32_t (*encodes)(const Topology& topology);
  /// What one rank sends, in units of 1/chunks of the encoded tensor: the largest over all ranks.
  std::uint32_t (*chunks_sent)(const Topology& topology);
  /// Contributions are added in rank order, whatever the world (then a raw result does not depend on the
  /// chunk cut).
  bool rank_order;
  /// The most encodes of one level in any such chain; null: all are of level 0, and the schedule depends on
  /// the number of ranks only.
  std::uint32_t (*encodes_at)(const Topology& topology, std::uint32_t level) = nullptr;

  Collective collective = Collective::all_reduce;
  /// Where the collective has a root: the same for any root; `build` is for root 0.
  Schedule (*build_rooted)(std::int32_t rank, const Topology& topology, std::int32_t root) = nullptr;

  bool uses_topology() const { return encodes_at != nullptr; }
};

/// The schedule of one rank; `root` where the collective has one.
Schedule build(const AlgorithmDesc& algorithm, std::int32_t rank, const Topology& topology,
               std::int32_t root = 0);

/// The most encodes of `level` that a contribution passes.
std::uint32_t encodes_at(const AlgorithmDesc& algorithm, const Topology& topology, std::uint32_t level);

/// All registered algorithms of a collective; one per file, listed in FERRULE_ALGORITHMS (CMakeLists.txt).
std::span<const AlgorithmDesc> algorithms(Collective collective = Collective::all_reduce);
/// By name, or null.
const AlgorithmDesc* find_algorithm(std::string_view name, Collective collective = Collective::all_reduce);

/// 64 bits over everything in the schedules of all ranks of (algorithm, topology, root) that peers must agree
/// on. The same on every rank.
std::uint64_t fingerprint(const AlgorithmDesc& algorithm, const Topology& topology, std::int32_t root = 0);

/// One line a step, for logs and test failures.
std::string to_string(const Schedule& schedule);
/// Without its chunk, e.g. "send slot 3 to rank 1".
std::string to_string(const Step& step);

}  // namespace ferrule::collectives
