// A plan: everything about a collective that does not depend on the data. Made once for a request, cached,
// agreed by all ranks through its fingerprint before data moves.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/codec.hpp"
#include "collectives/schedule.hpp"
#include "ferrule/status.hpp"
#include "ferrule/types.hpp"
#include "plan/cost_model.hpp"
#include "plan/layout.hpp"
#include "plan/program.hpp"

namespace ferrule::plan {

/// What the caller asked for.
struct Request {
  std::size_t count = 0;  ///< of the tensor, or of each rank's part; unused where `parts` has counts
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  /// One, or a list with one for each level (Codec::levels()). One alone leaves what stays inside a node raw.
  std::shared_ptr<const codec::Codec> codec;
  /// Null: choose. A list of codecs chooses `hierarchical`.
  const collectives::AlgorithmDesc* algorithm = nullptr;
  collectives::Collective collective = collectives::Collective::all_reduce;
  std::int32_t root = 0;
  std::vector<std::size_t> counts = {};       ///< as Parts has them
  std::vector<std::size_t> recv_counts = {};  ///< as Parts has them

  Parts parts() const { return {count, counts, recv_counts}; }
  /// Elements of all ranks' parts, or of the tensor; what differs between ranks (all_to_all) left out.
  std::size_t total(std::int32_t world) const;
};

/// Who runs it and over what.
struct Environment {
  std::int32_t rank = 0;
  std::int32_t world = 1;
  std::size_t slice_bytes = 64512;  ///< encoded bytes of a slice, at most (one block at least)
  std::uint32_t slices_in_flight = 4;
  bool fill_link = true;  ///< more slices in flight where the link's latency asks for it
  LinkModel link;
  std::shared_ptr<const collectives::Topology> topology;  ///< null: flat
};

/// Immutable; shared by the plan cache and the collectives under way.
class Plan {
 public:
  /// Chooses the algorithm if the request does not; takes `raw` in place of the request's codec where the
  /// encoded tensor would be no smaller than the tensor. Cost: O(steps of all ranks' schedules) for the
  /// fingerprint.
  static Result<std::shared_ptr<const Plan>> make(const Request& request, const Environment& environment,
                                                  std::shared_ptr<const codec::Codec> raw);

  const codec::Codec& codec(std::uint32_t level) const { return *codecs_[level]; }
  /// Of all levels, innermost first: "none/int4:block=128".
  const std::string& codec_text() const { return codec_text_; }
  /// Nothing is lost at any level.
  bool exact() const;
  const collectives::AlgorithmDesc& algorithm() const { return *algorithm_; }
  const Program& program() const { return program_; }
  /// Elements of the tensor, or of all parts together.
  std::size_t count() const { return count_; }
  /// What this rank hands over and gets.
  std::size_t input_count() const { return extent_.input; }
  std::size_t output_count() const { return extent_.output; }
  const collectives::Contract& contract() const { return contract_; }
  /// Of the collective, e.g. "all_reduce".
  std::string_view name() const { return collectives::name(contract_.collective); }
  DType dtype() const { return dtype_; }
  ReduceOp op() const { return op_; }
  std::int32_t world() const { return environment_.world; }
  std::uint32_t slices_in_flight() const { return slices_in_flight_; }
  std::uint32_t slice_count() const { return slice_count_; }
  /// The part of a chunk that runs in a slice: whole blocks, but for the tensor's end; may be empty.
  Range slice_of_chunk(std::uint32_t chunk, std::uint32_t slice) const { return layout_.slice(chunk, slice); }
  /// Where that begins in this rank's input (and its residual), and in its output.
  std::size_t input_begin(std::uint32_t chunk, std::uint32_t slice) const {
    return layout_.input_begin(chunk, slice);
  }
  std::size_t output_begin(std::uint32_t chunk, std::uint32_t slice) const {
    return layout_.output_begin(chunk, slice);
  }
  /// Encoded bytes of the largest slice of a chunk, at the level where it is largest.
  std::size_t slot_bytes() const { return slot_bytes_; }
  /// The most that a scratch slot holds.
  std::size_t scratch_slot_bytes() const { return scratch_slot_bytes_; }
  /// Encoded bytes at a level; kPlainLevel: of the elements.
  std::size_t encoded_bytes(std::size_t elements, std::uint32_t level) const {
    return level == kPlainLevel ? elements * element_bytes(dtype_)
                                : codecs_[level]->encoded_bytes(elements, dtype_);
  }

  /// The same 64 bits on every rank that plans the same.
  std::uint64_t fingerprint() const { return fingerprint_; }
  /// "key=value" lines of everything that ranks must agree on, for the text of a disagreement.
  const std::string& descriptor() const { return descriptor_; }

 private:
  Plan() = default;
  Status assign_codecs(const Request& request, const std::shared_ptr<const codec::Codec>& raw);
  bool is_used(std::uint32_t level) const;
  /// Of all chunks together.
  bool shrinks(const codec::Codec& codec) const;
  /// At the level where it is largest.
  std::size_t largest_encoded_bytes(std::size_t elements) const;
  Result<Program> lower_schedule(const collectives::Schedule& schedule) const;
  void cut();
  void fill_link();
  void describe(const Request& request);

  Environment environment_;
  collectives::Contract contract_;
  Parts parts_;
  Extent extent_;
  std::size_t count_ = 0;
  DType dtype_ = DType::f32;
  ReduceOp op_ = ReduceOp::sum;
  std::vector<std::shared_ptr<const codec::Codec>> codecs_;  // by level
  const collectives::AlgorithmDesc* algorithm_ = nullptr;
  Program program_;
  std::uint32_t chunks_ = 1;
  Layout layout_;
  std::uint32_t slice_count_ = 0;
  std::uint32_t slices_in_flight_ = 1;
  std::size_t slot_bytes_ = 0;
  std::size_t scratch_slot_bytes_ = 0;
  std::uint64_t fingerprint_ = 0;
  std::string codec_text_;
  std::string descriptor_;
};

/// The codec of each of `levels` levels: a list's from the innermost, its last one for all that are left. One
/// alone is for what leaves a node; inside, raw sums cost little and lose nothing.
std::vector<std::shared_ptr<const codec::Codec>> codecs_by_level(
    std::shared_ptr<const codec::Codec> codec, const std::shared_ptr<const codec::Codec>& raw,
    std::size_t levels);

/// 64-bit hash of bytes, the same on every machine.
std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed = 0);

}  // namespace ferrule::plan
