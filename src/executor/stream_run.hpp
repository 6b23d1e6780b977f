// The executor in the order of a device's stream: the same programs as Run walks, but enqueued from end to
// end at once, kernels and groups of messages by turns. When enqueue() has returned, the host is not needed
// any more; so what it enqueues can be captured in a graph and replayed.
//
// Memory of a run (encoded slots of one slice, sent and received) is kept for the next: at most about the
// encoded tensor times two, where the whole tensor is one slice. Slices follow each other on the stream.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "base/deadline.hpp"
#include "executor/stream_device.hpp"
#include "executor/stream_program.hpp"
#include "ferrule/status.hpp"
#include "plan/plan.hpp"
#include "transport/stream_link.hpp"

namespace ferrule::executor {

/// One collective. All pointers are device memory.
struct StreamJob {
  std::shared_ptr<const plan::Plan> plan;
  std::shared_ptr<const collectives::Topology> topology;  ///< the plan's; null: flat
  const void* input = nullptr;
  void* output = nullptr;
  /// Values before, and where all values after go; null: no error feedback. May not be the same.
  const float* residual_before = nullptr;
  float* residual_after = nullptr;
  /// Copy the values after over those before, at the end, in stream order: a graph always reads and writes
  /// the same memory. It must then be writable.
  bool settle_residual = false;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t tensor = 0;
};

/// One thread at a time. Destroy it when the streams it was used on have come to the end.
class StreamRun {
 public:
  StreamRun(transport::StreamLink& link, StreamDevice& device) : link_(link), device_(device) {}
  StreamRun(const StreamRun&) = delete;
  StreamRun& operator=(const StreamRun&) = delete;
  ~StreamRun();

  /// Memory and order of a plan, ahead of its first use: needed before it can be captured. If this must grow
  /// the memory, graphs that hold collectives of this run are spoilt: it refuses, once something was
  /// captured.
  Status prepare(const StreamJob& job);
  /// Enqueues all of it. The deadline is for connections that NCCL makes at first use. After an error part
  /// of it may be enqueued: abort the link.
  Status enqueue(const StreamJob& job, void* stream, Deadline deadline);
  std::size_t scratch_bytes() const { return memory_bytes_; }

 private:
  /// What the collective under way uses, of one slice.
  struct Walk {
    const StreamJob& job;
    const plan::Program& program;
    void* stream;
    Deadline deadline;
    std::uint32_t slice = 0;
    std::uint32_t* flags = nullptr;  ///< of the next decode of a result: whether it was not finite
    std::vector<std::byte*> slots;   ///< by slot: where its bytes are
  };
  struct Layout {
    std::size_t slot_bytes = 0;  ///< of a slot of ours, or received one by one
    std::size_t gather_at = 0;   ///< where the results of all-gathers begin
    std::size_t flags_at = 0;
    std::size_t bytes = 0;
  };

  Result<const StreamProgram*> program_of(const StreamJob& job);
  Status check(const StreamJob& job, bool captured) const;
  Status grow(std::size_t bytes, bool captured);
  Layout layout(const StreamJob& job, const StreamProgram& program) const;
  Status walk_slice(Walk& walk, const StreamProgram& program, const Layout& layout);
  void place_slots(Walk& walk, const StreamProgram& program, const Layout& layout) const;
  Status encode(const Walk& walk, const StreamKernel& kernel);
  Status decode(Walk& walk, const StreamKernel& kernel);
  codec::DecodeArgs decode_args(const Walk& walk, const plan::Instruction& instruction,
                                std::span<const codec::Term> terms) const;
  Status take_back_undelivered(const Walk& walk, const plan::Instruction& instruction,
                               const std::uint32_t* flag);
  Status keep_residual(const Walk& walk, plan::Range elements);
  Status communicate(const Walk& walk, const StreamRound& round);
  /// Bytes of each rank in an all-gather; 0: send them one by one.
  std::size_t gather_bytes(const Walk& walk, const StreamRound& round) const;
  std::vector<codec::Term> terms(const Walk& walk, const plan::Instruction& instruction) const;
  codec::EncodeArgs encode_args(const Walk& walk, const plan::Instruction& instruction,
                                std::span<const codec::Term> terms) const;
  codec::Feedback feedback(const StreamJob& job, const plan::Instruction& instruction,
                           std::size_t begin) const;

  transport::StreamLink& link_;
  StreamDevice& device_;
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  bool captured_ = false;  ///< a graph may hold addresses of the memory
  std::map<std::uint64_t, std::shared_ptr<const StreamProgram>> programs_;  ///< by the plan's fingerprint
};

}  // namespace ferrule::executor
