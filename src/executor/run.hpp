// The executor: walks the program of a plan, slice by slice, over one transport. The same for every algorithm
// and codec.
//
// Several slices are in flight: while one waits for the wire another is encoded or decoded. A slice becomes
// active only when an earlier one has ended, and it ends only when all that it needs from its peers has
// arrived: that bounds what a fast rank can send ahead (eager messages have no flow control of their own).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/huge_buffer.hpp"
#include "base/trace.hpp"
#include "codec/codec.hpp"
#include "executor/workers.hpp"
#include "ferrule/status.hpp"
#include "plan/plan.hpp"
#include "residual/residual.hpp"
#include "transport/transport.hpp"

namespace ferrule::executor {

/// One collective, ready to run. `input` and `output` hold plan->input_count() and output_count() elements; a
/// chunk that lies at the same address in both is in place.
struct Job {
  std::shared_ptr<const plan::Plan> plan;
  const void* input = nullptr;
  void* output = nullptr;
  residual::Update* update = nullptr;  ///< null or inactive: no error feedback
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t tensor = 0;
  std::uint64_t communicator = 0;
  std::uint64_t identity =
      0;  ///< plan fingerprint, mixed with what else ranks must agree on; goes in every header
  std::uint32_t sequence = 0;
  bool checksum = false;  ///< send payload checksums
};

/// Where the time of a run went; zeros for tensors of at most 32 KiB, which are too quick to be timed.
struct Times {
  std::uint64_t encode_ns = 0;
  std::uint64_t decode_ns = 0;
  std::uint64_t wait_ns = 0;
};

/// Runs one job at a time; its memory is kept for the next. Used by the transport's owner only.
class Run {
 public:
  Run(transport::Transport& transport, Trace& trace);
  ~Run();
  /// Threads that encode and decode, the caller of advance() being one of them. Once, before any job.
  Status start_workers(std::uint32_t threads);

  /// Allocates scratch if this job needs more than any before it.
  Status start(const Job& job);
  /// Drives until the job is done (true), or until the deadline or `interrupt` (false): call it again to go
  /// on. An error is final: call cancel().
  Result<bool> advance(Deadline until, const std::atomic<bool>& interrupt);
  /// Takes back what is posted and gives back what was received. Sends may still end by themselves until
  /// `grace`; true: some had to be taken back by force.
  bool cancel(Deadline grace);
  /// Ranks whose messages the oldest slice waits for, without doubles.
  std::vector<std::int32_t> waiting_for() const;
  /// When the job last came any further.
  Deadline::Clock::time_point moved() const { return moved_; }
  const Times& times() const { return times_; }
  std::size_t scratch_bytes() const { return scratch_.bytes(); }

 private:
  struct Slice;

  void activate(Slice& slice, std::uint32_t number);
  Status post_receives(Slice& slice);
  Result<bool> walk_slices();
  Result<bool> walk(Slice& slice);
  // Encode, decode and fold, in arithmetic.cpp.
  /// Whether its terms have arrived and its destination is free; then slice.terms holds them.
  Result<bool> is_ready(Slice& slice, const plan::Instruction& instruction);
  /// The arithmetic, on any thread: it touches nothing but the slice and its part of the tensor.
  void compute(Slice& slice, const plan::Instruction& instruction) const;
  /// Gives back what was used.
  void conclude(Slice& slice, const plan::Instruction& instruction);
  /// Hands what the slices are ready for to the workers.
  void compute_ready();
  Result<bool> send(Slice& slice, const plan::Instruction& instruction);
  void encode(const Slice& slice, const plan::Instruction& instruction) const;
  void decode(const Slice& slice, const plan::Instruction& instruction) const;
  void fold(const Slice& slice, const plan::Instruction& instruction) const;
  Result<bool> gather_terms(Slice& slice, const plan::Instruction& instruction);
  const std::byte* aligned(Slice& slice, std::span<const std::byte> elements) const;
  bool decodes_nothing(const Slice& slice, const plan::Instruction& instruction) const;
  Result<bool> arrived(Slice& slice, std::uint32_t slot);
  void use_up(Slice& slice, std::uint32_t slot);
  Status reap_sends(Slice& slice);
  /// In place: the chunk may be written only when it is no longer being sent from.
  bool output_is_free(const Slice& slice, std::uint32_t chunk) const;
  std::span<const std::byte> slot_bytes(const Slice& slice, std::uint32_t slot) const;
  bool feeds_back() const;
  /// Where the output is not finite, the residual stays as it was.
  void take_back_undelivered(const Slice& slice, std::uint32_t chunk) const;
  void keep_residual(const Slice& slice, std::uint32_t chunk) const;
  codec::Feedback feedback(const plan::Instruction& instruction, std::size_t begin) const;
  plan::Range range(const Slice& slice, std::uint32_t chunk) const;
  std::byte* scratch_at(const Slice& slice, std::uint32_t slot) const;
  void trace(Trace::Kind kind, Deadline::Clock::time_point begin, Deadline::Clock::time_point end);
  void trace_send(const Slice& slice, std::size_t index);

  const std::byte* input_of(const Slice& slice, std::uint32_t chunk) const;
  std::byte* output_of(const Slice& slice, std::uint32_t chunk) const;

  transport::Transport& transport_;
  Trace& trace_;
  Workers workers_;
  Job job_;
  Times times_;
  bool is_timed_ = false;
  Deadline::Clock::time_point started_{};
  Deadline::Clock::time_point moved_{};
  HugeBuffer scratch_;
  std::vector<std::unique_ptr<Slice>> slices_;  // slices_[0 .. active): oldest first
  std::size_t active_ = 0;
  std::uint32_t next_slice_ = 0;
  std::vector<Slice*> ready_;  // those whose next instruction is for the workers
  std::vector<transport::Recv*> recv_pointers_;
};

}  // namespace ferrule::executor
