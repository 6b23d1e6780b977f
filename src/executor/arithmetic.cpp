// Encode, decode and fold: when they may run, and what they do.
#include <algorithm>

#include "executor/run.hpp"
#include "executor/slice.hpp"

namespace ferrule::executor {

using collectives::ErrorKept;
using collectives::kOwnInput;
using plan::Instruction;
using plan::Range;
using plan::SlotHome;
using Clock = Deadline::Clock;

Result<bool> Run::is_ready(Slice& slice, const Instruction& instruction) {
  const bool encodes = instruction.kind == Instruction::Kind::encode;
  if (encodes && instruction.copies_nothing) return true;
  auto gathered = gather_terms(slice, instruction);
  if (!gathered.ok() || !*gathered) return gathered;
  if (instruction.kind == Instruction::Kind::fold) return true;
  const bool writes_output = encodes ? job_.plan->program().slots[instruction.slot].home == SlotHome::output
                                     : !decodes_nothing(slice, instruction);
  return !writes_output || output_is_free(slice, instruction.chunk);
}

void Run::compute(Slice& slice, const Instruction& instruction) const {
  if (is_timed_) slice.begin = Clock::now();
  switch (instruction.kind) {
    case Instruction::Kind::encode:
      encode(slice, instruction);
      break;
    case Instruction::Kind::decode:
      decode(slice, instruction);
      break;
    case Instruction::Kind::fold:
      fold(slice, instruction);
      break;
    case Instruction::Kind::send:
      break;
  }
  if (is_timed_) slice.end = Clock::now();
}

void Run::conclude(Slice& slice, const Instruction& instruction) {
  const bool encoded = instruction.kind == Instruction::Kind::encode;
  if (is_timed_) (encoded ? times_.encode_ns : times_.decode_ns) += ns_between(slice.begin, slice.end);
  if (trace_.on() && !instruction.copies_nothing) {
    const std::size_t bytes = range(slice, instruction.chunk).count * element_bytes(job_.plan->dtype());
    trace_.add({encoded ? Trace::Kind::encode : Trace::Kind::decode, -1, job_.sequence, slice.number,
                instruction.chunk, bytes, slice.begin, slice.end});
  }
  for (std::uint32_t i = 0; i < instruction.term_count; ++i) {
    const std::uint32_t slot = job_.plan->program().terms[instruction.first_term + i];
    if (slot != kOwnInput) use_up(slice, slot);
  }
}

codec::EncodeArgs Run::encode_args(const Slice& slice, const Instruction& instruction) const {
  const Range elements = range(slice, instruction.chunk);
  const plan::Slot& slot = job_.plan->program().slots[instruction.slot];
  codec::EncodeArgs args;
  args.terms = slice.terms;
  args.count = elements.count;
  args.dtype = job_.plan->dtype();
  args.op = job_.plan->op();
  args.feedback = feedback(instruction, job_.plan->input_begin(instruction.chunk, slice.number));
  args.noise = {
      codec::noise_key(job_.seed, job_.step, job_.tensor, static_cast<std::uint64_t>(instruction.noise_rank)),
      elements.begin};
  args.final = instruction.final;
  args.world = static_cast<std::uint32_t>(job_.plan->world());
  args.out = slot.home == SlotHome::output ? output_of(slice, instruction.chunk)
                                           : scratch_at(slice, instruction.slot);
  return args;
}

codec::DecodeArgs Run::decode_args(const Slice& slice, const Instruction& instruction) const {
  const Range elements = range(slice, instruction.chunk);
  codec::DecodeArgs args;
  args.terms = slice.terms;
  args.count = elements.count;
  args.dtype = job_.plan->dtype();
  args.op = job_.plan->op();
  args.finish = true;
  args.world = static_cast<std::uint32_t>(job_.plan->world());
  args.out = output_of(slice, instruction.chunk);
  return args;
}

codec::DecodeArgs Run::fold_args(const Slice& slice, const Instruction& instruction) const {
  codec::DecodeArgs args;
  args.terms = slice.terms;
  args.count = range(slice, instruction.chunk).count;
  args.dtype = job_.plan->dtype();
  args.op = job_.plan->op();
  args.out = scratch_at(slice, instruction.slot);
  return args;
}

void Run::encode(const Slice& slice, const Instruction& instruction) const {
  if (instruction.copies_nothing) return keep_residual(slice, instruction.chunk);
  job_.plan->codec(instruction.level).encode(encode_args(slice, instruction));
}

void Run::decode(const Slice& slice, const Instruction& instruction) const {
  const codec::Codec& codec = job_.plan->codec(instruction.level);
  bool finite = true;
  if (!decodes_nothing(slice, instruction)) finite = codec.decode(decode_args(slice, instruction));
  // An exact codec does not look, and what it brings may have been lost before it.
  if (!finite || codec.exact()) take_back_undelivered(slice, instruction.chunk);
  if (instruction.keeps_residual) keep_residual(slice, instruction.chunk);
}

void Run::fold(const Slice& slice, const Instruction& instruction) const {
  // A NaN is seen again in the sum that is made of it.
  static_cast<void>(job_.plan->codec(instruction.level).decode(fold_args(slice, instruction)));
}

// The raw codec may find its only term where it belongs.
bool Run::decodes_nothing(const Slice& slice, const Instruction& instruction) const {
  const std::byte* out = output_of(slice, instruction.chunk);
  return instruction.copies_nothing || (slice.terms.size() == 1 && slice.terms[0].data == out);
}

bool Run::feeds_back() const { return job_.update != nullptr && job_.update->active(); }

void Run::take_back_undelivered(const Slice& slice, std::uint32_t chunk) const {
  if (!feeds_back() || !job_.plan->contract().brings(transport_.rank(), chunk)) return;
  const std::size_t begin = job_.plan->input_begin(chunk, slice.number);
  residual::keep_where_not_finite(output_of(slice, chunk), job_.plan->dtype(), range(slice, chunk).count,
                                  job_.update->before() + begin, job_.update->after() + begin);
}

// What an exact encode does, where it is left out: nothing is lost, and what was delayed stays so.
void Run::keep_residual(const Slice& slice, std::uint32_t chunk) const {
  if (!feeds_back()) return;
  const std::size_t begin = job_.plan->input_begin(chunk, slice.number);
  std::copy_n(job_.update->before() + begin, range(slice, chunk).count, job_.update->after() + begin);
}

codec::Feedback Run::feedback(const Instruction& instruction, std::size_t begin) const {
  if (!feeds_back()) return {};
  float* after = job_.update->after() + begin;
  switch (instruction.error) {
    case ErrorKept::add:
      return {job_.update->before() + begin, after, true};
    case ErrorKept::charge:
      return {after, after, false};  // on top of what this collective has stored already
    case ErrorKept::none:
      break;
  }
  return {};
}

Result<bool> Run::gather_terms(Slice& slice, const Instruction& instruction) {
  slice.terms.clear();
  slice.aligned_used = 0;
  const bool reads_raw = job_.plan->codec(instruction.level).identity();
  for (std::uint32_t i = 0; i < instruction.term_count; ++i) {
    const std::uint32_t slot = job_.plan->program().terms[instruction.first_term + i];
    if (slot == kOwnInput) {
      slice.terms.push_back({codec::Term::Kind::plain, input_of(slice, instruction.chunk)});
      continue;
    }
    auto here = arrived(slice, slot);
    if (!here.ok() || !*here) return here;
    std::span<const std::byte> bytes = slot_bytes(slice, slot);
    if (device_ != nullptr) {
      auto there = bring(slice, slot, bytes);
      if (!there.ok() || !*there) return there;
      bytes = on_device(slice, slot, bytes);
    }
    if (job_.plan->program().slots[slot].raw && !reads_raw) {
      slice.terms.push_back({codec::Term::Kind::plain, aligned(slice, bytes)});
    } else {
      slice.terms.push_back({codec::Term::Kind::encoded, bytes.data()});
    }
  }
  return true;
}

// Where a transport gives messages at any address: a copy, which lives until the slice's next instruction.
const std::byte* Run::aligned(Slice& slice, std::span<const std::byte> elements) const {
  if (reinterpret_cast<std::uintptr_t>(elements.data()) % element_bytes(job_.plan->dtype()) == 0) {
    return elements.data();
  }
  if (slice.aligned.size() == slice.aligned_used) slice.aligned.emplace_back();
  std::vector<std::byte>& copy = slice.aligned[slice.aligned_used++];
  copy.assign(elements.begin(), elements.end());
  return copy.data();
}

bool Run::output_is_free(const Slice& slice, std::uint32_t chunk) const {
  if (slice.sends_under_way == 0) return true;
  for (std::size_t i = 0; i < slice.send_posted.size(); ++i) {
    if (slice.send_posted[i] == 0 || slice.sends[i]->done) continue;
    const plan::Slot& slot = job_.plan->program().slots[slice.send_slots[i]];
    if (slot.home != SlotHome::input || slot.chunk != chunk) continue;
    if (input_of(slice, chunk) == output_of(slice, chunk)) return false;
  }
  return true;
}

}  // namespace ferrule::executor
