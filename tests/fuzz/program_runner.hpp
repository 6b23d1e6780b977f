// Walks the lowered programs of all ranks on numbers, one double a chunk, as the executor walks them on
// tensors: with slots that are the tensor itself, in place or not. Shares nothing with the executor but the
// meaning of a program.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "collectives/interpreter.hpp"
#include "plan/program.hpp"

namespace ferrule::fuzz {

struct ProgramRules {
  collectives::test::Round round;            ///< of the lossy codecs
  std::span<const plan::LevelCodec> levels;  ///< a raw codec divides an average in its final encode
  bool average = false;
  bool in_place = false;
};

class ProgramRunner {
 public:
  using Numbers = collectives::test::Numbers;

  ProgramRunner(std::span<const plan::Program> programs, ProgramRules rules)
      : programs_(programs), rules_(std::move(rules)), scratch_(programs.size()), next_(programs.size()) {}

  /// Fills in outputs and residuals. Returns whether all ranks have come to their end.
  bool run(std::vector<Numbers>& ranks) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      ranks[rank].output =
          rules_.in_place ? ranks[rank].input : std::vector<double>(ranks[rank].input.size());
      scratch_[rank].assign(programs_[rank].scratch_slots, 0.0);
    }
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) moved = advance(rank, ranks[rank]) || moved;
    }
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
      if (next_[rank] < programs_[rank].instructions.size()) return false;
    }
    return true;
  }

 private:
  using Instruction = plan::Instruction;

  bool advance(std::size_t rank, Numbers& numbers) {
    const auto& instructions = programs_[rank].instructions;
    const std::size_t start = next_[rank];
    while (next_[rank] < instructions.size() && execute(rank, instructions[next_[rank]], numbers))
      ++next_[rank];
    return next_[rank] != start;
  }

  // The input's memory, which is the output's when in place.
  const std::vector<double>& input(const Numbers& numbers) const {
    return rules_.in_place ? numbers.output : numbers.input;
  }

  // Null: the bytes are not there yet.
  const double* slot(std::size_t rank, std::uint32_t number, const Numbers& numbers) const {
    const plan::Program& program = programs_[rank];
    const plan::Slot& where = program.slots[number];
    switch (where.home) {
      case plan::SlotHome::scratch:
        return &scratch_[rank][where.index];
      case plan::SlotHome::input:
        return &input(numbers)[where.chunk];
      case plan::SlotHome::output:
        return &numbers.output[where.chunk];
      case plan::SlotHome::received:
        break;
    }
    const plan::Receive& receive = program.receives[where.index];
    const auto found = wire_.find({static_cast<std::size_t>(receive.peer), rank, receive.ordinal});
    return found == wire_.end() ? nullptr : &found->second;
  }

  bool execute(std::size_t rank, const Instruction& instruction, Numbers& numbers) {
    if (instruction.kind == Instruction::Kind::send) {
      const double* bytes = slot(rank, instruction.slot, numbers);
      if (bytes == nullptr) return false;
      wire_[{rank, static_cast<std::size_t>(instruction.peer), instruction.ordinal}] = *bytes;
      return true;
    }
    if (instruction.kind == Instruction::Kind::encode && instruction.copies_nothing) return true;
    double sum = 0;
    for (std::uint32_t i = 0; i < instruction.term_count; ++i) {
      const std::uint32_t term = programs_[rank].terms[instruction.first_term + i];
      const double* value =
          term == collectives::kOwnInput ? &input(numbers)[instruction.chunk] : slot(rank, term, numbers);
      if (value == nullptr) return false;
      sum += *value;
    }
    if (instruction.kind == Instruction::Kind::encode) {
      encode(rank, instruction, sum, numbers);
    } else if (instruction.kind == Instruction::Kind::fold) {
      scratch_[rank][programs_[rank].slots[instruction.slot].index] = sum;
    } else if (!instruction.copies_nothing) {
      const bool undivided = !is_raw(instruction) || instruction.term_count > 1;
      numbers.output[instruction.chunk] = rules_.average && undivided ? sum / world() : sum;
    }
    return true;
  }

  bool is_raw(const Instruction& instruction) const { return rules_.levels[instruction.level].identity; }

  void encode(std::size_t rank, const Instruction& instruction, double sum, Numbers& numbers) {
    double& residual = numbers.residual[instruction.chunk];
    const bool raw = is_raw(instruction);
    const bool add = instruction.error == collectives::ErrorKept::add && !raw;
    const double with = add ? sum + residual : sum;
    const double rounded = raw ? with : rules_.round(with);
    if (add) residual = with - rounded;
    if (instruction.error == collectives::ErrorKept::charge) residual += with - rounded;
    const bool divide = raw && rules_.average && instruction.final;
    const plan::Slot& where = programs_[rank].slots[instruction.slot];
    double& out =
        where.home == plan::SlotHome::output ? numbers.output[where.chunk] : scratch_[rank][where.index];
    out = divide ? rounded / world() : rounded;
  }

  double world() const { return static_cast<double>(programs_.size()); }

  std::span<const plan::Program> programs_;
  ProgramRules rules_;
  std::vector<std::vector<double>> scratch_;
  std::vector<std::size_t> next_;
  std::map<std::tuple<std::size_t, std::size_t, std::uint32_t>, double>
      wire_;  // source, destination, ordinal
};

}  // namespace ferrule::fuzz
