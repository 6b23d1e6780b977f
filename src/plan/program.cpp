#include "plan/program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace ferrule::plan {
namespace {

using collectives::kOwnInput;
using collectives::kSum;
using collectives::Operation;
using collectives::Schedule;
using collectives::Step;

class Lowering {
 public:
  Lowering(const Schedule& schedule, std::span<const LevelCodec> levels,
           const collectives::Contract& contract)
      : schedule_(schedule), levels_(levels), contract_(contract) {
    program_.slots.resize(schedule.slots);
    written_.resize(schedule.slots, false);
    sums_.resize(schedule.chunks);
  }

  Result<Program> run() {
    for (const Step& step : schedule_.steps) {
      FERRULE_RETURN_IF_ERROR(check(step));
      FERRULE_RETURN_IF_ERROR(lower(step));
    }
    mark_final();
    mark_residuals();
    leave_out_copies();
    number_scratch();
    return std::move(program_);
  }

 private:
  Status broken(const Step& step, std::string_view why) const {
    return Status(
        ErrorCode::internal,
        fmt::format("schedule of rank {} of {}: {} (operation {}, chunk {}, slot {})", schedule_.rank,
                    schedule_.world, why, static_cast<int>(step.operation), step.chunk, step.slot));
  }

  Status check(const Step& step) const {
    if (step.chunk >= schedule_.chunks) return broken(step, "no such chunk");
    if (step.level >= levels_.size()) return broken(step, "no such level");
    const bool moves = step.operation == Operation::send || step.operation == Operation::recv;
    if (moves && (step.peer < 0 || step.peer >= schedule_.world || step.peer == schedule_.rank)) {
      return broken(step, "no such peer");
    }
    return {};
  }

  Status lower(const Step& step) {
    switch (step.operation) {
      case Operation::encode:
        return encode(step);
      case Operation::hop:
        return hop(step);
      case Operation::send:
        return send(step);
      case Operation::recv:
        return receive(step);
      case Operation::decode_add:
        return add_term(step, step.slot, sums_[step.chunk]);
      case Operation::decode:
        return decode(step);
    }
    return broken(step, "no such operation");
  }

  Status encode(const Step& step) {
    std::vector<std::uint32_t> terms;
    if (step.from == kOwnInput) {
      terms.push_back(kOwnInput);
    } else {
      terms = std::exchange(sums_[step.chunk], {});
    }
    return emit_encode(step, terms);
  }

  Status hop(const Step& step) {
    std::vector<std::uint32_t> terms;
    FERRULE_RETURN_IF_ERROR(add_term(step, step.from, terms));
    terms.push_back(kOwnInput);
    return emit_encode(step, terms);
  }

  Status emit_encode(const Step& step, std::vector<std::uint32_t>& terms) {
    if (terms.empty()) return broken(step, "encodes a sum that is empty");
    FERRULE_RETURN_IF_ERROR(write_slot(step, SlotHome::scratch));
    fold_unreadable(step, step.level, terms);
    Instruction& instruction = emit(Instruction::Kind::encode, step);
    instruction.level = step.level;
    instruction.error = step.error;
    instruction.noise_rank = step.noise_rank;
    // A reduce encodes a sum when it is complete, and only its root decodes it.
    instruction.final = contract_.collective == collectives::Collective::reduce && step.from == kSum;
    set_terms(instruction, terms);
    return {};
  }

  Status decode(const Step& step) {
    std::vector<std::uint32_t> terms;
    if (step.slot == kSum) {
      terms = std::exchange(sums_[step.chunk], {});
      if (terms.empty()) return broken(step, "decodes a sum that is empty");
      sum_decoded_.push_back(step.chunk);
    } else {
      FERRULE_RETURN_IF_ERROR(add_term(step, step.slot, terms));
    }
    const std::uint8_t level = level_of_last(terms);
    fold_unreadable(step, level, terms);
    Instruction& instruction = emit(Instruction::Kind::decode, step);
    instruction.level = level;
    set_terms(instruction, terms);
    return {};
  }

  // The level of the last term that has one.
  std::uint8_t level_of_last(const std::vector<std::uint32_t>& terms) const {
    for (std::size_t i = terms.size(); i-- > 0;) {
      if (terms[i] != kOwnInput) return program_.slots[terms[i]].level;
    }
    return 0;
  }

  // Elements can be read by every codec, encoded bytes only by their own.
  bool is_readable(std::uint32_t term, std::uint8_t level) const {
    if (term == kOwnInput || program_.slots[term].raw) return true;
    return levels_[program_.slots[term].level].codec == levels_[level].codec;
  }

  // Replaces what the codec of `level` cannot read, and all before it, by a plain sum of it; additions keep
  // their order.
  void fold_unreadable(const Step& step, std::uint8_t level, std::vector<std::uint32_t>& terms) {
    std::size_t end = terms.size();
    while (end > 0 && is_readable(terms[end - 1], level)) --end;
    if (end == 0) return;
    const auto rest = terms.begin() + static_cast<std::ptrdiff_t>(end);
    std::vector<std::uint32_t> folded(terms.begin(), rest);
    const std::uint8_t inner = program_.slots[folded.back()].level;
    fold_unreadable(step, inner, folded);
    Instruction& instruction = emit(Instruction::Kind::fold, step);
    instruction.level = inner;
    instruction.slot = static_cast<std::uint32_t>(program_.slots.size());
    set_terms(instruction, folded);
    program_.slots.push_back({SlotHome::scratch, kPlainLevel, true, step.chunk, 0, 1});
    terms.erase(terms.begin(), rest);
    terms.insert(terms.begin(), instruction.slot);
  }

  Status send(const Step& step) {
    FERRULE_RETURN_IF_ERROR(read_slot(step, step.slot));
    Instruction& instruction = emit(Instruction::Kind::send, step);
    instruction.peer = step.peer;
    instruction.ordinal = sent_to_[step.peer]++;
    instruction.index = program_.sends++;
    return {};
  }

  Status receive(const Step& step) {
    FERRULE_RETURN_IF_ERROR(write_slot(step, SlotHome::received));
    program_.slots[step.slot].index = static_cast<std::uint32_t>(program_.receives.size());
    program_.receives.push_back({step.slot, step.chunk, step.peer, received_from_[step.peer]++});
    return {};
  }

  Status add_term(const Step& step, std::uint32_t slot, std::vector<std::uint32_t>& terms) {
    if (slot != kOwnInput) FERRULE_RETURN_IF_ERROR(read_slot(step, slot));
    terms.push_back(slot);
    return {};
  }

  Status write_slot(const Step& step, SlotHome home) {
    if (step.slot >= schedule_.slots) return broken(step, "no such slot");
    if (written_[step.slot]) return broken(step, "writes a slot a second time");
    written_[step.slot] = true;
    program_.slots[step.slot] = {home, step.level, levels_[step.level].identity, step.chunk, 0, 0};
    return {};
  }

  Status read_slot(const Step& step, std::uint32_t slot) {
    if (slot >= schedule_.slots || !written_[slot])
      return broken(step, "reads a slot that is not written yet");
    if (program_.slots[slot].chunk != step.chunk) return broken(step, "reads a slot of another chunk");
    ++program_.slots[slot].uses;
    return {};
  }

  Instruction& emit(Instruction::Kind kind, const Step& step) {
    Instruction& instruction = program_.instructions.emplace_back();
    instruction.kind = kind;
    instruction.chunk = step.chunk;
    instruction.slot = step.slot;
    return instruction;
  }

  void set_terms(Instruction& instruction, const std::vector<std::uint32_t>& terms) {
    instruction.first_term = static_cast<std::uint32_t>(program_.terms.size());
    instruction.term_count = static_cast<std::uint32_t>(terms.size());
    program_.terms.insert(program_.terms.end(), terms.begin(), terms.end());
  }

  /// The one slot that a decode reads, or kSum.
  std::uint32_t only_slot(const Instruction& instruction) const {
    const std::uint32_t term = program_.terms[instruction.first_term];
    return instruction.term_count == 1 && term != kOwnInput ? term : kSum;
  }

  // A value that this rank encodes, and then decodes alone, is the chunk's result.
  void mark_final() {
    for (const Instruction& decode : program_.instructions) {
      if (decode.kind != Instruction::Kind::decode) continue;
      const std::uint32_t slot = only_slot(decode);
      if (slot == kSum) continue;
      for (Instruction& encode : program_.instructions) {
        if (encode.kind == Instruction::Kind::encode && encode.slot == slot) encode.final = true;
      }
    }
  }

  // What is added to a sum as it is leaves nothing behind, and what was left behind before stays so.
  void mark_residuals() {
    for (Instruction& decode : program_.instructions) {
      if (decode.kind != Instruction::Kind::decode) continue;
      const auto first = program_.terms.begin() + static_cast<std::ptrdiff_t>(decode.first_term);
      const bool takes_input =
          std::find(first, first + decode.term_count, kOwnInput) != first + decode.term_count;
      decode.keeps_residual =
          takes_input && std::none_of(program_.instructions.begin(), program_.instructions.end(),
                                      [&](const Instruction& other) {
                                        return other.kind == Instruction::Kind::encode &&
                                               other.chunk == decode.chunk;
                                      });
    }
  }

  // With a raw codec a slot can be the tensor itself. The input may be sent from where it lies only if the
  // chunk's output is not a sum that this rank forms (one-shot, recursive doubling): in place, each rank
  // would wait for its peers to have read its input before it overwrites it, and so would they.
  void leave_out_copies() {
    for (Instruction& instruction : program_.instructions) {
      if (instruction.kind == Instruction::Kind::encode) {
        Slot& slot = program_.slots[instruction.slot];
        if (!slot.raw) continue;
        const bool own_input_only =
            instruction.term_count == 1 && program_.terms[instruction.first_term] == kOwnInput;
        if (instruction.final && contract_.gets(schedule_.rank, instruction.chunk)) {
          slot.home = SlotHome::output;
        } else if (own_input_only && !is_sum_decoded(instruction.chunk)) {
          slot.home = SlotHome::input;
          instruction.copies_nothing = true;
        }
      } else if (instruction.kind == Instruction::Kind::decode) {
        const std::uint32_t slot = only_slot(instruction);
        instruction.copies_nothing = slot != kSum && program_.slots[slot].home == SlotHome::output;
      }
    }
  }

  bool is_sum_decoded(std::uint32_t chunk) const {
    return std::find(sum_decoded_.begin(), sum_decoded_.end(), chunk) != sum_decoded_.end();
  }

  void number_scratch() {
    for (Slot& slot : program_.slots) {
      if (slot.home == SlotHome::scratch) slot.index = program_.scratch_slots++;
    }
  }

  const Schedule& schedule_;
  const std::span<const LevelCodec> levels_;
  const collectives::Contract contract_;
  Program program_;
  std::vector<bool> written_;
  std::vector<std::vector<std::uint32_t>> sums_;
  std::vector<std::uint32_t> sum_decoded_;
  std::map<std::int32_t, std::uint32_t> sent_to_;
  std::map<std::int32_t, std::uint32_t> received_from_;
};

}  // namespace

Result<Program> lower(const Schedule& schedule, std::span<const LevelCodec> levels,
                      const collectives::Contract& contract) {
  return Lowering(schedule, levels, contract).run();
}

}  // namespace ferrule::plan
