#include "executor/stream_run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "executor/slice.hpp"

namespace ferrule::executor {
namespace {

using collectives::ErrorKept;
using collectives::kOwnInput;
using plan::Instruction;
using plan::Range;
using plan::SlotHome;

/// Plans whose order is kept. More than a training has buckets.
constexpr std::size_t kPrograms = 1024;
/// An all-gather of unequal parts sends all as long as the longest: taken where that adds a 16th at most.
constexpr std::size_t kPaddingShare = 16;

std::byte* elements_at(const void* tensor, std::size_t element, DType dtype) {
  auto* begin = static_cast<std::byte*>(const_cast<void*>(tensor));
  return begin + element * element_bytes(dtype);
}

// A rank alone encodes nothing: its residual stays as it is.
bool feeds_back(const StreamJob& job) { return job.residual_before != nullptr && job.plan->world() > 1; }

std::size_t slot_size(const plan::Plan& plan, const plan::Slot& slot, std::uint32_t slice) {
  return plan.encoded_bytes(plan.slice_of_chunk(slot.chunk, slice).count, slot.level);
}

}  // namespace

StreamRun::~StreamRun() {
  if (memory_ != nullptr) device_.release(memory_);
}

// ---- before

Result<const StreamProgram*> StreamRun::program_of(const StreamJob& job) {
  auto found = programs_.find(job.plan->fingerprint());
  if (found != programs_.end()) return found->second.get();
  const auto flat = collectives::Topology(job.plan->world());
  auto made = StreamProgram::make(*job.plan, job.topology != nullptr ? *job.topology : flat, link_.rank());
  FERRULE_RETURN_IF_ERROR(made.status());
  if (programs_.size() == kPrograms) programs_.clear();
  return programs_.emplace(job.plan->fingerprint(), *made).first->second.get();
}

Status StreamRun::check(const StreamJob& job, bool captured) const {
  if (link_.size() != job.plan->world()) {
    return {ErrorCode::internal,
            fmt::format("a plan for {} ranks over a link of {}", job.plan->world(), link_.size())};
  }
  if (job.plan->contract().collective != collectives::Collective::all_reduce) {
    return {ErrorCode::unsupported,
            fmt::format("{} in stream order: there is all_reduce only; use transport ucx or loopback",
                        job.plan->name())};
  }
  if (job.plan->count() != 0) {
    FERRULE_RETURN_IF_ERROR(device_.check_pointer(job.input, "input"));
    FERRULE_RETURN_IF_ERROR(device_.check_pointer(job.output, "output"));
  }
  for (const plan::Slot& slot : job.plan->program().slots) {
    if (slot.level == plan::kPlainLevel) continue;
    const codec::Codec& codec = job.plan->codec(slot.level);
    FERRULE_RETURN_IF_ERROR(device_.check(codec, job.plan->dtype(), job.plan->op()));
    // The key of the random bits is a parameter of the kernel: each replay would round with the same bits.
    if (captured && codec.spec().find("stochastic") != std::string::npos) {
      return {
          ErrorCode::unsupported,
          fmt::format("codec {} in a CUDA graph: every replay would draw the same random bits. Use one that "
                      "rounds to nearest, with a residual",
                      codec.spec())};
    }
  }
  if (captured && feeds_back(job) && !job.settle_residual) {
    return {
        ErrorCode::invalid_argument,
        "a residual in a CUDA graph must be settled in place: replays read what the one before has written"};
  }
  return {};
}

Status StreamRun::grow(std::size_t bytes, bool captured) {
  if (bytes <= memory_bytes_) return {};
  if (captured || captured_) {
    return {ErrorCode::invalid_argument,
            fmt::format(
                "{} more bytes of device memory are needed, which cannot be had {}: prepare the largest "
                "collective before the first capture",
                bytes - memory_bytes_,
                captured ? "while a CUDA graph is being captured" : "because a CUDA graph uses the memory")};
  }
  // Work that uses the old memory ends first: release() waits for the device.
  if (memory_ != nullptr) device_.release(std::exchange(memory_, nullptr));
  memory_bytes_ = 0;
  auto memory = device_.allocate(bytes);
  FERRULE_RETURN_IF_ERROR(memory.status());
  memory_ = *memory;
  memory_bytes_ = bytes;
  return {};
}

StreamRun::Layout StreamRun::layout(const StreamJob& job, const StreamProgram& program) const {
  Layout layout;
  const plan::Program& lowered = job.plan->program();
  const auto gathers = std::count_if(program.rounds().begin(), program.rounds().end(),
                                     [](const StreamRound& round) { return !round.gather_chunks.empty(); });
  layout.slot_bytes = align_up(std::max(job.plan->scratch_slot_bytes(), job.plan->slot_bytes()));
  layout.gather_at = layout.slot_bytes * (lowered.scratch_slots + lowered.receives.size());
  layout.flags_at = layout.gather_at + layout.slot_bytes * static_cast<std::size_t>(gathers * link_.size());
  layout.bytes = layout.flags_at + align_up(sizeof(std::uint32_t) * program.decodes());
  return layout;
}

Status StreamRun::prepare(const StreamJob& job) {
  auto program = program_of(job);
  FERRULE_RETURN_IF_ERROR(program.status());
  return grow(layout(job, **program).bytes, false);
}

// ---- the walk

Status StreamRun::enqueue(const StreamJob& job, void* stream, Deadline deadline) {
  auto captured = device_.is_captured(stream);
  FERRULE_RETURN_IF_ERROR(captured.status());
  FERRULE_RETURN_IF_ERROR(check(job, *captured));
  auto program = program_of(job);
  FERRULE_RETURN_IF_ERROR(program.status());
  const Layout memory = layout(job, **program);
  FERRULE_RETURN_IF_ERROR(grow(memory.bytes, *captured));
  captured_ = captured_ || *captured;
  Walk walk{job, job.plan->program(), stream, deadline, 0, nullptr, {}};
  for (; walk.slice < job.plan->slice_count(); ++walk.slice) {
    FERRULE_RETURN_IF_ERROR(walk_slice(walk, **program, memory));
  }
  if (!feeds_back(job) || !job.settle_residual) return {};
  return device_.copy(const_cast<float*>(job.residual_before), job.residual_after,
                      job.plan->count() * sizeof(float), stream);
}

Status StreamRun::walk_slice(Walk& walk, const StreamProgram& program, const Layout& layout) {
  place_slots(walk, program, layout);
  walk.flags = reinterpret_cast<std::uint32_t*>(memory_ + layout.flags_at);
  if (feeds_back(walk.job) && program.decodes() != 0) {
    const std::size_t bytes = sizeof(std::uint32_t) * program.decodes();
    FERRULE_RETURN_IF_ERROR(device_.clear(walk.flags, bytes, walk.stream));
  }
  for (const StreamRound& round : program.rounds()) {
    for (const StreamKernel& kernel : round.kernels) {
      const bool encodes = kernel.kind == Instruction::Kind::encode;
      FERRULE_RETURN_IF_ERROR(encodes ? encode(walk, kernel) : decode(walk, kernel));
    }
    FERRULE_RETURN_IF_ERROR(communicate(walk, round));
  }
  return {};
}

void StreamRun::place_slots(Walk& walk, const StreamProgram& program, const Layout& layout) const {
  const StreamJob& job = walk.job;
  walk.slots.resize(walk.program.slots.size());
  for (std::size_t i = 0; i < walk.program.slots.size(); ++i) {
    const plan::Slot& slot = walk.program.slots[i];
    const std::size_t begin = job.plan->slice_of_chunk(slot.chunk, walk.slice).begin;
    const std::size_t number =
        slot.home == SlotHome::received ? walk.program.scratch_slots + slot.index : slot.index;
    walk.slots[i] = slot.home == SlotHome::input    ? elements_at(job.input, begin, job.plan->dtype())
                    : slot.home == SlotHome::output ? elements_at(job.output, begin, job.plan->dtype())
                                                    : memory_ + layout.slot_bytes * number;
  }
  // What an all-gather brings lies side by side.
  std::byte* at = memory_ + layout.gather_at;
  for (const StreamRound& round : program.rounds()) {
    if (round.gather_chunks.empty()) continue;
    const std::size_t bytes = gather_bytes(walk, round);
    for (const std::uint32_t number : round.receives) {
      if (bytes == 0) break;
      const plan::Receive& receive = walk.program.receives[number];
      walk.slots[receive.slot] = at + bytes * static_cast<std::size_t>(receive.peer);
    }
    at += layout.slot_bytes * static_cast<std::size_t>(link_.size());
  }
}

// ---- messages

std::size_t StreamRun::gather_bytes(const Walk& walk, const StreamRound& round) const {
  if (round.gather_chunks.empty() || round.sends.empty()) return 0;
  const std::uint32_t own_slot = walk.program.instructions[round.sends.front()].slot;
  const plan::Slot& own = walk.program.slots[own_slot];
  std::size_t longest = 0;
  std::size_t total = 0;
  for (const std::uint32_t chunk : round.gather_chunks) {
    const Range elements = walk.job.plan->slice_of_chunk(chunk, walk.slice);
    const std::size_t bytes = walk.job.plan->encoded_bytes(elements.count, own.level);
    longest = std::max(longest, bytes);
    total += bytes;
  }
  const std::size_t sent = longest * round.gather_chunks.size();
  // Raw bytes are sent from the tensor itself, which may end there; a slot is as long as the longest.
  if (own.raw) return sent == total ? longest : 0;
  return sent <= total + total / kPaddingShare ? longest : 0;
}

Status StreamRun::communicate(const Walk& walk, const StreamRound& round) {
  if (const std::size_t bytes = gather_bytes(walk, round); bytes != 0) {
    const plan::Receive& first = walk.program.receives[round.receives.front()];
    std::byte* all = walk.slots[first.slot] - bytes * static_cast<std::size_t>(first.peer);
    const std::byte* mine = walk.slots[walk.program.instructions[round.sends.front()].slot];
    return link_.all_gather({mine, all, bytes}, walk.stream, walk.deadline);
  }
  std::vector<transport::StreamMessage> sends;
  std::vector<transport::StreamMessage> receives;
  for (const std::uint32_t number : round.sends) {
    const Instruction& send = walk.program.instructions[number];
    const std::size_t bytes = slot_size(*walk.job.plan, walk.program.slots[send.slot], walk.slice);
    if (bytes != 0) sends.push_back({send.peer, walk.slots[send.slot], bytes});
  }
  for (const std::uint32_t number : round.receives) {
    const plan::Receive& receive = walk.program.receives[number];
    const std::size_t bytes = slot_size(*walk.job.plan, walk.program.slots[receive.slot], walk.slice);
    if (bytes != 0) receives.push_back({receive.peer, walk.slots[receive.slot], bytes});
  }
  return link_.exchange({sends, receives}, walk.stream, walk.deadline);
}

// ---- arithmetic

std::vector<codec::Term> StreamRun::terms(const Walk& walk, const Instruction& instruction) const {
  std::vector<codec::Term> list;
  const plan::Plan& plan = *walk.job.plan;
  const bool reads_raw = plan.codec(instruction.level).identity();
  const std::size_t begin = plan.slice_of_chunk(instruction.chunk, walk.slice).begin;
  for (std::uint32_t i = 0; i < instruction.term_count; ++i) {
    const std::uint32_t slot = walk.program.terms[instruction.first_term + i];
    const bool own = slot == kOwnInput;
    const bool plain = own || (walk.program.slots[slot].raw && !reads_raw);
    list.push_back({plain ? codec::Term::Kind::plain : codec::Term::Kind::encoded,
                    own ? elements_at(walk.job.input, begin, plan.dtype()) : walk.slots[slot]});
  }
  return list;
}

codec::Feedback StreamRun::feedback(const StreamJob& job, const Instruction& instruction,
                                    std::size_t begin) const {
  if (!feeds_back(job)) return {};
  float* after = job.residual_after + begin;
  switch (instruction.error) {
    case ErrorKept::add:
      return {job.residual_before + begin, after, true};
    case ErrorKept::charge:
      return {after, after, false};
    case ErrorKept::none:
      break;
  }
  return {};
}

codec::EncodeArgs StreamRun::encode_args(const Walk& walk, const Instruction& instruction,
                                         std::span<const codec::Term> terms) const {
  const StreamJob& job = walk.job;
  const Range elements = job.plan->slice_of_chunk(instruction.chunk, walk.slice);
  codec::EncodeArgs args;
  args.terms = terms;
  args.count = elements.count;
  args.dtype = job.plan->dtype();
  args.op = job.plan->op();
  args.feedback = feedback(job, instruction, elements.begin);
  args.noise = {
      codec::noise_key(job.seed, job.step, job.tensor, static_cast<std::uint64_t>(instruction.noise_rank)),
      elements.begin};
  args.final = instruction.final;
  args.world = static_cast<std::uint32_t>(job.plan->world());
  args.out = walk.slots[instruction.slot];
  return args;
}

Status StreamRun::encode(const Walk& walk, const StreamKernel& kernel) {
  std::vector<std::vector<codec::Term>> lists;
  std::vector<codec::EncodeArgs> calls;
  lists.reserve(kernel.instructions.size());
  for (const std::uint32_t number : kernel.instructions) {
    const Instruction& instruction = walk.program.instructions[number];
    const Range elements = walk.job.plan->slice_of_chunk(instruction.chunk, walk.slice);
    if (elements.count == 0) continue;
    if (instruction.copies_nothing) {
      FERRULE_RETURN_IF_ERROR(keep_residual(walk, elements));
      continue;
    }
    lists.push_back(terms(walk, instruction));
    calls.push_back(encode_args(walk, instruction, lists.back()));
  }
  if (calls.empty()) return {};
  return device_.encode(walk.job.plan->codec(kernel.level), calls, walk.stream);
}

codec::DecodeArgs StreamRun::decode_args(const Walk& walk, const Instruction& instruction,
                                         std::span<const codec::Term> terms) const {
  const StreamJob& job = walk.job;
  const Range elements = job.plan->slice_of_chunk(instruction.chunk, walk.slice);
  const bool folds = instruction.kind == Instruction::Kind::fold;
  codec::DecodeArgs args;
  args.terms = terms;
  args.count = elements.count;
  args.dtype = job.plan->dtype();
  args.op = job.plan->op();
  args.finish = !folds;
  args.world = static_cast<std::uint32_t>(job.plan->world());
  args.out = folds ? walk.slots[instruction.slot] : elements_at(job.output, elements.begin, args.dtype);
  return args;
}

Status StreamRun::decode(Walk& walk, const StreamKernel& kernel) {
  std::vector<std::vector<codec::Term>> lists;
  std::vector<codec::DecodeArgs> calls;
  std::vector<const Instruction*> delivered;
  lists.reserve(kernel.instructions.size());
  for (const std::uint32_t number : kernel.instructions) {
    const Instruction& instruction = walk.program.instructions[number];
    if (walk.job.plan->slice_of_chunk(instruction.chunk, walk.slice).count == 0) continue;
    lists.push_back(terms(walk, instruction));
    const codec::DecodeArgs args = decode_args(walk, instruction, lists.back());
    if (args.finish) delivered.push_back(&instruction);
    // The raw codec may find its only term where it belongs.
    const bool is_there = args.terms.size() == 1 && args.terms[0].data == args.out;
    if (!is_there && !instruction.copies_nothing) calls.push_back(args);
  }
  // One flag for each call. An exact codec, which may have fewer calls than results, has none.
  const codec::Codec& codec = walk.job.plan->codec(kernel.level);
  const bool asks = feeds_back(walk.job) && !delivered.empty() && !codec.exact();
  std::uint32_t* flags = asks ? std::exchange(walk.flags, walk.flags + delivered.size()) : nullptr;
  if (!calls.empty()) FERRULE_RETURN_IF_ERROR(device_.decode(codec, calls, flags, walk.stream));
  if (!feeds_back(walk.job)) return {};
  for (std::size_t i = 0; i < delivered.size(); ++i) {
    FERRULE_RETURN_IF_ERROR(take_back_undelivered(walk, *delivered[i], asks ? flags + i : nullptr));
    if (!delivered[i]->keeps_residual) continue;
    FERRULE_RETURN_IF_ERROR(
        keep_residual(walk, walk.job.plan->slice_of_chunk(delivered[i]->chunk, walk.slice)));
  }
  return {};
}

// An exact codec does not look (no flag), and what it brings may have been lost before it.
Status StreamRun::take_back_undelivered(const Walk& walk, const Instruction& instruction,
                                        const std::uint32_t* flag) {
  const StreamJob& job = walk.job;
  const Range elements = job.plan->slice_of_chunk(instruction.chunk, walk.slice);
  return device_.keep_where_not_finite(
      {elements_at(job.output, elements.begin, job.plan->dtype()), job.plan->dtype(), elements.count,
       job.residual_before + elements.begin, job.residual_after + elements.begin, flag},
      walk.stream);
}

Status StreamRun::keep_residual(const Walk& walk, Range elements) {
  if (!feeds_back(walk.job)) return {};
  return device_.copy(walk.job.residual_after + elements.begin, walk.job.residual_before + elements.begin,
                      elements.count * sizeof(float), walk.stream);
}

}  // namespace ferrule::executor
