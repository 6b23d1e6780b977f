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
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/deadline.hpp"
#include "base/huge_buffer.hpp"
#include "base/trace.hpp"
#include "codec/codec.hpp"
#include "executor/backend.hpp"
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
  // Input, output and residual in the memory of a device:
  Backend* backend = nullptr;         ///< that of the device; null: all is in host memory
  std::shared_ptr<Mark> input_ready;  ///< arithmetic begins when it has passed; null: at once
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
  /// The caller's stream has not got as far as the collective.
  bool waits_for_input() const { return !input_is_ready_; }
  /// What the job has submitted to its device may still be running when the job is done: this is the end of
  /// it. Null on the host.
  std::shared_ptr<Mark> end_mark() { return std::move(end_mark_); }

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
  codec::EncodeArgs encode_args(const Slice& slice, const plan::Instruction& instruction) const;
  codec::DecodeArgs decode_args(const Slice& slice, const plan::Instruction& instruction) const;
  codec::DecodeArgs fold_args(const Slice& slice, const plan::Instruction& instruction) const;
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

  // Memory of devices, in device.cpp.
  /// A receive's message stays where it is until the device has read it.
  struct HeldMessage {
    transport::Received message;
    std::optional<Ticket> until;
  };
  Status reserve_on_device(std::size_t places);
  Result<bool> look_for_input();
  Status submit(Slice& slice, const plan::Instruction& instruction);
  Status submit_decode(Slice& slice, const plan::Instruction& instruction);
  Status submit_kept_residual(const Slice& slice, std::uint32_t chunk);
  /// Whether the device has the slot's bytes; starts to bring them.
  Result<bool> bring(Slice& slice, std::uint32_t slot, std::span<const std::byte> bytes);
  std::span<const std::byte> on_device(const Slice& slice, std::uint32_t slot,
                                       std::span<const std::byte> bytes) const;
  /// The send goes out when its bytes have left the device.
  Status defer(Slice& slice, const plan::Instruction& instruction);
  Result<bool> post_deferred(Slice& slice);
  Status post(Slice& slice, std::uint32_t index);
  void release(transport::Received& message);
  Status release_held();
  bool device_is_busy() const;
  void wait_a_little(bool moved);
  Status end_on_device();
  /// Whether everything ended within the limit.
  bool drain_device();
  Status fetch_to_host(Slice& slice, std::uint32_t receive) const;
  static bool is_fetched(const Slice& slice, std::uint32_t receive);

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

  Backend* device_ = nullptr;  // the job's; null: host memory
  bool sends_device_memory_ = false;
  bool input_is_ready_ = true;
  bool brings_later_ = false;  // the device still reads what a slot held before
  std::uint32_t idle_looks_ = 0;
  std::vector<std::uint32_t> published_index_;  // by slot: which published slot of its place
  std::deque<HeldMessage> held_;                // in order of their tickets
  std::shared_ptr<Mark> end_mark_;
};

}  // namespace ferrule::executor
