#include "collectives/verify/replay.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "collectives/verify/matching.hpp"

namespace ferrule::collectives::verifier {
namespace {

// What a rank holds of one chunk.
struct ChunkState {
  Value sum;
  Value output;
  bool sum_is_read = true;  // nothing was added since the sum was last read
  bool residual_is_added = false;
  bool error_is_kept = false;
};

struct SlotState {
  std::optional<std::uint32_t> bytes;  // number in Symbols
  std::uint32_t chunk = 0;
  std::int32_t written_by = -1;  // step
  bool is_read = false;
};

struct RankState {
  std::size_t next = 0;          // step
  std::int32_t batch_begin = 0;  // first step of the batch that `next` may belong to
  std::vector<ChunkState> chunks;
  std::vector<SlotState> slots;
};

class Replay {
 public:
  Replay(std::span<const Schedule> schedules, const Contract& contract, Findings& findings)
      : schedules_(schedules), contract_(contract), findings_(findings) {
    outcome_.contract = contract;
    for (const Schedule& schedule : schedules) {
      ranks_.push_back(
          {0, 0, std::vector<ChunkState>(schedule.chunks), std::vector<SlotState>(schedule.slots)});
    }
  }

  Outcome run() {
    for (bool moved = true; moved && findings_.empty();) {
      moved = false;
      for (const Schedule& schedule : schedules_) moved = advance(schedule) || moved;
    }
    if (findings_.empty()) {
      for (const Schedule& schedule : schedules_) check_leftovers(schedule.rank);
    }
    return std::move(outcome_);
  }

 private:
  // Walks one rank until it lacks bytes. Returns whether it moved at all.
  bool advance(const Schedule& schedule) {
    RankState& state = ranks_[schedule.rank];
    const std::size_t start = state.next;
    while (state.next < schedule.steps.size() && findings_.empty()) {
      here_ = {schedule.rank, static_cast<std::int32_t>(state.next)};
      const Step& step = schedule.steps[state.next];
      if (step.operation == Operation::recv && !receive(step)) break;
      if (step.operation != Operation::recv) execute(step);
      ++state.next;
      if (!moves_bytes(step)) state.batch_begin = static_cast<std::int32_t>(state.next);
    }
    return state.next != start;
  }

  void execute(const Step& step) {
    switch (step.operation) {
      case Operation::encode:
        return encode(step, step.from == kSum ? take_sum(step) : own_input(step));
      case Operation::hop: {
        Value value = decoded(step, step.from);
        for (const Term& term : own_input(step)) value.push_back(term);
        return encode(step, value);
      }
      case Operation::decode_add:
        return add(step, step.slot == kOwnInput ? own_input(step) : decoded(step, step.slot));
      case Operation::decode:
        return store(step, step.slot == kSum ? read_sum(step) : decoded(step, step.slot));
      case Operation::send:
        check_slot_is_older_than_batch(step);
        if (const auto bytes = read(step, step.slot)) wire_[{here_.rank, step.peer}].push_back(*bytes);
        return;
      case Operation::recv:
        return;  // see advance()
    }
  }

  void fail(Fault fault, const std::string& reason) { findings_.add(fault, here_, reason); }
  ChunkState& chunk_of(const Step& step) { return ranks_[here_.rank].chunks[step.chunk]; }

  bool receive(const Step& step) {
    auto& queue = wire_[{step.peer, here_.rank}];
    if (queue.empty()) return false;
    const std::uint32_t bytes = queue.front();
    const std::uint32_t level = outcome_.symbols.all()[bytes].recipe.level;
    if (level != step.level) {
      fail(Fault::level_mismatch,
           fmt::format("rank {} sends bytes of level {}, and level {} is due", step.peer, level, step.level));
    }
    write(step, bytes);
    queue.pop_front();
    return true;
  }

  // A send in the batch that receives its slot may leave before the bytes are there.
  void check_slot_is_older_than_batch(const Step& step) {
    const RankState& state = ranks_[here_.rank];
    const SlotState& slot = state.slots[step.slot];
    if (!slot.bytes || slot.written_by < state.batch_begin) return;
    fail(Fault::slot_unwritten,
         fmt::format("step {} of the same batch receives slot {}", slot.written_by, step.slot));
  }

  void write(const Step& step, std::uint32_t bytes) {
    SlotState& slot = ranks_[here_.rank].slots[step.slot];
    if (slot.bytes) {
      return fail(Fault::slot_rewritten,
                  fmt::format("step {} has written slot {}", slot.written_by, step.slot));
    }
    slot = {bytes, step.chunk, here_.step, false};
  }

  std::optional<std::uint32_t> read(const Step& step, std::uint32_t number) {
    SlotState& slot = ranks_[here_.rank].slots[number];
    if (!slot.bytes) {
      fail(Fault::slot_unwritten, fmt::format("nothing has written slot {} before", number));
    } else if (slot.chunk != step.chunk) {
      fail(Fault::slot_of_other_chunk,
           fmt::format("step {} has written chunk {} to slot {}", slot.written_by, slot.chunk, number));
    }
    slot.is_read = true;
    return slot.bytes;
  }

  Value decoded(const Step& step, std::uint32_t number) {
    const auto bytes = read(step, number);
    return bytes ? Value{{Term::Kind::decoded, *bytes}} : Value{};
  }

  Value own_input(const Step& step) {
    if (!contract_.brings(here_.rank, step.chunk)) {
      fail(Fault::input_absent, fmt::format("the rank brings nothing to chunk {}", step.chunk));
    }
    if (!chunk_of(step).output.empty()) {
      fail(Fault::input_overwritten, "the chunk's output is written already, perhaps over the input");
    }
    return {{Term::Kind::input, static_cast<std::uint32_t>(here_.rank)}};
  }

  Value read_sum(const Step& step) {
    ChunkState& chunk = chunk_of(step);
    if (chunk.sum.empty())
      fail(Fault::sum_empty, fmt::format("nothing was added to the sum of chunk {}", step.chunk));
    chunk.sum_is_read = true;
    return chunk.sum;
  }

  Value take_sum(const Step& step) {
    const Value sum = read_sum(step);
    chunk_of(step).sum.clear();
    return sum;
  }

  void add(const Step& step, const Value& value) {
    ChunkState& chunk = chunk_of(step);
    chunk.sum.insert(chunk.sum.end(), value.begin(), value.end());
    chunk.sum_is_read = false;
  }

  void encode(const Step& step, const Value& value) {
    if (value.empty()) return;  // found already
    const bool adds = step.error == ErrorKept::add;
    if (adds && std::exchange(chunk_of(step).residual_is_added, true)) {
      fail(Fault::residual_reused, fmt::format("the residual of chunk {} was added before", step.chunk));
    }
    if (step.error != ErrorKept::none) chunk_of(step).error_is_kept = true;
    write(step,
          outcome_.symbols.encode({step.chunk, step.level, value, adds ? here_.rank : -1, step.noise_rank},
                                  here_, step.error));
  }

  void store(const Step& step, const Value& value) {
    if (!contract_.gets(here_.rank, step.chunk)) {
      fail(Fault::output_unwanted, fmt::format("the rank does not get chunk {}", step.chunk));
    }
    Value& output = chunk_of(step).output;
    if (!output.empty()) fail(Fault::output_rewritten, fmt::format("chunk {} has its output", step.chunk));
    output = value;
  }

  void check_leftovers(std::int32_t rank) {
    RankState& state = ranks_[rank];
    here_ = {rank, -1};
    std::vector<Value>& outputs = outcome_.outputs.emplace_back();
    for (std::size_t i = 0; i < state.chunks.size(); ++i) {
      const ChunkState& chunk = state.chunks[i];
      const bool gets = contract_.gets(rank, static_cast<std::uint32_t>(i));
      if (gets && chunk.output.empty()) fail(Fault::output_missing, fmt::format("chunk {} has no output", i));
      if (!chunk.sum_is_read) fail(Fault::sum_unused, fmt::format("the sum of chunk {} is not read", i));
      if (chunk.error_is_kept && !chunk.residual_is_added) {
        fail(Fault::residual_unused,
             fmt::format("the residual of chunk {} keeps an error and is never added", i));
      }
      outputs.push_back(chunk.output);
    }
    for (const SlotState& slot : state.slots) {
      here_.step = slot.written_by;
      if (slot.bytes && !slot.is_read) fail(Fault::slot_unused, "nothing reads what it writes");
    }
  }

  std::span<const Schedule> schedules_;
  const Contract contract_;
  Findings& findings_;
  Place here_;  // the step being executed
  std::vector<RankState> ranks_;
  std::map<std::pair<std::int32_t, std::int32_t>, std::deque<std::uint32_t>> wire_;  // by source, destination
  Outcome outcome_;
};

}  // namespace

std::int32_t Outcome::first_to_get(std::size_t chunk) const {
  for (std::int32_t rank = 0; rank < contract.world; ++rank) {
    if (contract.gets(rank, static_cast<std::uint32_t>(chunk))) return rank;
  }
  return -1;
}

Outcome replay(std::span<const Schedule> schedules, const Contract& contract, Findings& findings) {
  return Replay(schedules, contract, findings).run();
}

}  // namespace ferrule::collectives::verifier
