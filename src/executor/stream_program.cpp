#include "executor/stream_program.hpp"

#include <algorithm>
#include <utility>

namespace ferrule::executor {
namespace {

using collectives::kOwnInput;
using plan::Instruction;
using plan::Program;
using plan::SlotHome;

std::span<const std::uint32_t> terms_of(const Program& program, const Instruction& instruction) {
  return std::span(program.terms).subspan(instruction.first_term, instruction.term_count);
}

/// When each slot's bytes are there, and until when each chunk's input is being sent.
struct Times {
  std::vector<std::uint32_t> slot;
  std::vector<std::uint32_t> sent;  ///< by chunk
};

std::uint32_t ready(const Program& program, const Instruction& instruction, const Times& times) {
  std::uint32_t round = 0;
  for (const std::uint32_t term : terms_of(program, instruction)) {
    if (term != kOwnInput) round = std::max(round, times.slot[term]);
  }
  const bool of_own_input = instruction.term_count == 1 && program.terms[instruction.first_term] == kOwnInput;
  return instruction.kind == Instruction::Kind::encode && !of_own_input
             ? std::max(round, times.sent[instruction.chunk])
             : round;
}

bool reads(const Program& program, const Instruction& instruction, std::uint32_t slot) {
  const auto terms = terms_of(program, instruction);
  return std::find(terms.begin(), terms.end(), slot) != terms.end();
}

// What is written and what is read must not meet within one kernel: slots, and in place also the chunks of
// input and output.
bool depends(const Program& program, const Instruction& later, const Instruction& earlier) {
  if (later.chunk == earlier.chunk) return true;
  return earlier.kind != Instruction::Kind::decode && reads(program, later, earlier.slot);
}

}  // namespace

Result<std::shared_ptr<const StreamProgram>> StreamProgram::make(const plan::Plan& plan,
                                                                 const collectives::Topology& topology,
                                                                 std::int32_t rank) {
  auto rounds = collectives::find_rounds(plan.algorithm(), topology, rank);
  FERRULE_RETURN_IF_ERROR(rounds.status());
  std::shared_ptr<StreamProgram> program(new StreamProgram);
  program->rounds_.resize(rounds->count + 1);
  program->place(plan, *rounds);
  program->add_messages(plan.program(), *rounds);
  return std::shared_ptr<const StreamProgram>(std::move(program));
}

// Arithmetic goes as early as it can, where messages may be waiting for it; decodes go last, where nothing
// does, so that they are few kernels.
void StreamProgram::place(const plan::Plan& plan, const collectives::Rounds& rounds) {
  const Program& program = plan.program();
  Times times;
  times.slot.assign(program.slots.size(), 0);
  for (std::size_t i = 0; i < program.receives.size(); ++i) {
    times.slot[program.receives[i].slot] = rounds.receives[i];
  }
  for (const Instruction& instruction : program.instructions) {
    times.sent.resize(std::max<std::size_t>(times.sent.size(), instruction.chunk + 1), 0);
  }
  for (std::uint32_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.kind == Instruction::Kind::send) {
      std::uint32_t& sent = times.sent[instruction.chunk];
      sent = std::max(sent, rounds.sends[instruction.index]);
    } else if (instruction.kind == Instruction::Kind::decode) {
      ++decodes_;
      add(rounds_.back(), program, i);
    } else {
      const std::uint32_t round = ready(program, instruction, times);
      times.slot[instruction.slot] = round;
      add(rounds_[round], program, i);
    }
  }
}

// Into the earliest kernel of its kind that no kernel stands behind which it depends on.
void StreamProgram::add(StreamRound& round, const Program& program, std::uint32_t number) {
  const Instruction& instruction = program.instructions[number];
  StreamKernel* place = nullptr;
  for (std::size_t i = round.kernels.size(); i-- > 0;) {
    StreamKernel& kernel = round.kernels[i];
    const bool blocks = std::any_of(
        kernel.instructions.begin(), kernel.instructions.end(),
        [&](std::uint32_t each) { return depends(program, instruction, program.instructions[each]); });
    if (blocks) break;
    if (kernel.kind == instruction.kind && kernel.level == instruction.level) place = &kernel;
  }
  if (place == nullptr)
    place = &round.kernels.emplace_back(StreamKernel{instruction.kind, instruction.level, {}});
  place->instructions.push_back(number);
}

void StreamProgram::add_messages(const Program& program, const collectives::Rounds& rounds) {
  for (std::uint32_t i = 0; i < program.instructions.size(); ++i) {
    const Instruction& instruction = program.instructions[i];
    if (instruction.kind != Instruction::Kind::send) continue;
    rounds_[rounds.sends[instruction.index] - 1].sends.push_back(i);
  }
  for (std::uint32_t i = 0; i < program.receives.size(); ++i) {
    rounds_[rounds.receives[i] - 1].receives.push_back(i);
  }
  for (std::uint32_t round = 1; round <= rounds.count; ++round) {
    rounds_[round - 1].gather_chunks = rounds.gathered[round];
  }
}

}  // namespace ferrule::executor
