#include "executor/run.hpp"

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
using Clock = Deadline::Clock;

constexpr std::size_t kAlignment = 64;

std::size_t align_up(std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

std::uint64_t ns_since(Clock::time_point start) {
  return static_cast<std::uint64_t>((Clock::now() - start) / std::chrono::nanoseconds(1));
}

}  // namespace

Run::Run(transport::Transport& transport) : transport_(transport) {}
Run::~Run() = default;

Status Run::start(const Job& job) {
  job_ = job;
  times_ = {};
  active_ = 0;
  next_slice_ = 0;
  const plan::Program& program = job_.plan->program();
  const std::size_t in_flight =
      std::min<std::size_t>(job_.plan->slices_in_flight(), job_.plan->slice_count());
  const std::size_t slice_scratch = align_up(job_.plan->scratch_slot_bytes()) * program.scratch_slots;
  if (scratch_.bytes() < slice_scratch * in_flight) {
    scratch_ = HugeBuffer();
    auto grown = HugeBuffer::allocate(slice_scratch * in_flight);
    FERRULE_RETURN_IF_ERROR(grown.status());
    scratch_ = std::move(grown).value();
  }
  while (slices_.size() < in_flight) slices_.push_back(std::make_unique<Slice>());
  for (std::size_t i = 0; i < in_flight; ++i) slices_[i]->scratch = scratch_.data() + i * slice_scratch;
  for (; active_ < in_flight; ++active_) {
    activate(*slices_[active_], next_slice_++);
    FERRULE_RETURN_IF_ERROR(post_receives(*slices_[active_]));
  }
  return {};
}

void Run::activate(Slice& slice, std::uint32_t number) {
  const plan::Program& program = job_.plan->program();
  slice.number = number;
  slice.next = 0;
  slice.sends_under_way = 0;
  slice.uses_left.resize(program.slots.size());
  for (std::size_t i = 0; i < program.slots.size(); ++i) slice.uses_left[i] = program.slots[i].uses;
  while (slice.sends.size() < program.sends) slice.sends.push_back(std::make_unique<transport::Send>());
  while (slice.recvs.size() < program.receives.size())
    slice.recvs.push_back(std::make_unique<transport::Recv>());
  slice.send_slots.resize(program.sends);
  slice.send_posted.assign(program.sends, 0);
  slice.recv_posted.assign(program.receives.size(), 0);
}

Status Run::post_receives(Slice& slice) {
  recv_pointers_.clear();
  const plan::Program& program = job_.plan->program();
  const std::vector<plan::Receive>& receives = program.receives;
  for (std::size_t i = 0; i < receives.size(); ++i) {
    const Range elements = range(slice, receives[i].chunk);
    if (elements.count == 0) continue;
    transport::Recv& recv = *slice.recvs[i];
    recv = transport::Recv();
    recv.peer = receives[i].peer;
    recv.sequence = job_.sequence;
    recv.slice = slice.number;
    recv.ordinal = receives[i].ordinal;
    recv.plan = job_.identity;
    recv.bytes = job_.plan->encoded_bytes(elements.count, program.slots[receives[i].slot].level);
    slice.recv_posted[i] = 1;
    recv_pointers_.push_back(&recv);
  }
  if (recv_pointers_.empty()) return {};
  return transport_.post({{}, recv_pointers_});
}

Result<bool> Run::advance(Deadline until, const std::atomic<bool>& interrupt) {
  while (true) {
    bool moved = false;
    for (std::size_t i = 0; i < active_;) {
      auto walked = walk(*slices_[i]);
      FERRULE_RETURN_IF_ERROR(walked.status());
      moved = moved || *walked;
      Slice& slice = *slices_[i];
      const bool ended = slice.next == job_.plan->program().instructions.size() && slice.sends_under_way == 0;
      if (!ended) {
        ++i;
        continue;
      }
      moved = true;
      std::rotate(slices_.begin() + static_cast<std::ptrdiff_t>(i),
                  slices_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                  slices_.begin() + static_cast<std::ptrdiff_t>(active_));
      if (next_slice_ < job_.plan->slice_count()) {
        activate(*slices_[active_ - 1], next_slice_++);
        FERRULE_RETURN_IF_ERROR(post_receives(*slices_[active_ - 1]));
      } else {
        --active_;
      }
    }
    if (active_ == 0) return true;
    if (interrupt.load(std::memory_order_relaxed) || (!moved && until.passed())) return false;
    const auto start = Clock::now();
    if (moved) moved_ = start;
    FERRULE_RETURN_IF_ERROR(transport_.progress(moved ? Deadline(start) : until));
    times_.wait_ns += ns_since(start);
  }
}

// Executes instructions until one must wait. Returns whether anything was done.
Result<bool> Run::walk(Slice& slice) {
  FERRULE_RETURN_IF_ERROR(reap_sends(slice));
  const std::vector<Instruction>& instructions = job_.plan->program().instructions;
  const std::size_t before = slice.next;
  while (slice.next < instructions.size()) {
    auto executed = execute(slice, instructions[slice.next]);
    FERRULE_RETURN_IF_ERROR(executed.status());
    if (!*executed) break;
    ++slice.next;
  }
  return slice.next != before;
}

// Returns false where the instruction must wait.
Result<bool> Run::execute(Slice& slice, const Instruction& instruction) {
  if (range(slice, instruction.chunk).count == 0) return true;
  switch (instruction.kind) {
    case Instruction::Kind::encode:
      return encode(slice, instruction);
    case Instruction::Kind::decode:
      return decode(slice, instruction);
    case Instruction::Kind::send:
      return send(slice, instruction);
    case Instruction::Kind::fold:
      return fold(slice, instruction);
  }
  return Status(ErrorCode::internal, "the executor met an unknown instruction");
}

Result<bool> Run::encode(Slice& slice, const Instruction& instruction) {
  if (instruction.copies_nothing) {
    keep_residual(range(slice, instruction.chunk));
    return true;
  }
  auto ready = gather_terms(slice, instruction);
  if (!ready.ok() || !*ready) return ready;
  const plan::Slot& slot = job_.plan->program().slots[instruction.slot];
  if (slot.home == SlotHome::output && !output_is_free(slice, instruction.chunk)) return false;
  const Range elements = range(slice, instruction.chunk);
  const auto start = Clock::now();
  codec::EncodeArgs args;
  args.terms = terms_;
  args.count = elements.count;
  args.dtype = job_.plan->dtype();
  args.op = job_.plan->op();
  args.feedback = feedback(instruction, elements.begin);
  args.noise = {
      codec::noise_key(job_.seed, job_.step, job_.tensor, static_cast<std::uint64_t>(instruction.noise_rank)),
      elements.begin};
  args.final = instruction.final;
  args.world = static_cast<std::uint32_t>(job_.plan->world());
  args.out = slot.home == SlotHome::output
                 ? output_at(elements.begin)
                 : slice.scratch + slot.index * align_up(job_.plan->scratch_slot_bytes());
  job_.plan->codec(instruction.level).encode(args);
  times_.encode_ns += ns_since(start);
  use_up_terms(slice, instruction);
  return true;
}

Result<bool> Run::decode(Slice& slice, const Instruction& instruction) {
  auto ready = gather_terms(slice, instruction);
  if (!ready.ok() || !*ready) return ready;
  const Range elements = range(slice, instruction.chunk);
  std::byte* out = output_at(elements.begin);
  const bool same_memory = terms_.size() == 1 && terms_[0].data == out;
  bool finite = true;
  if (!instruction.copies_nothing && !same_memory) {
    if (!output_is_free(slice, instruction.chunk)) return false;
    const auto start = Clock::now();
    codec::DecodeArgs args;
    args.terms = terms_;
    args.count = elements.count;
    args.dtype = job_.plan->dtype();
    args.op = job_.plan->op();
    args.finish = true;
    args.world = static_cast<std::uint32_t>(job_.plan->world());
    args.out = out;
    finite = job_.plan->codec(instruction.level).decode(args);
    times_.decode_ns += ns_since(start);
  }
  // An exact codec does not look, and what it brings may have been lost before it.
  if (!finite || job_.plan->codec(instruction.level).exact()) take_back_undelivered(elements);
  use_up_terms(slice, instruction);
  return true;
}

Result<bool> Run::fold(Slice& slice, const Instruction& instruction) {
  auto ready = gather_terms(slice, instruction);
  if (!ready.ok() || !*ready) return ready;
  const auto start = Clock::now();
  codec::DecodeArgs args;
  args.terms = terms_;
  args.count = range(slice, instruction.chunk).count;
  args.dtype = job_.plan->dtype();
  args.op = job_.plan->op();
  args.out = slice.scratch +
             job_.plan->program().slots[instruction.slot].index * align_up(job_.plan->scratch_slot_bytes());
  // A NaN is seen again in the sum that is made of it.
  static_cast<void>(job_.plan->codec(instruction.level).decode(args));
  times_.decode_ns += ns_since(start);
  use_up_terms(slice, instruction);
  return true;
}

bool Run::feeds_back() const { return job_.update != nullptr && job_.update->active(); }

void Run::take_back_undelivered(Range elements) {
  if (!feeds_back()) return;
  residual::keep_where_not_finite(output_at(elements.begin), job_.plan->dtype(), elements.count,
                                  job_.update->before() + elements.begin,
                                  job_.update->after() + elements.begin);
}

// What an exact encode does, where it is left out: nothing is lost, and what was delayed stays so.
void Run::keep_residual(Range elements) {
  if (!feeds_back()) return;
  std::copy_n(job_.update->before() + elements.begin, elements.count, job_.update->after() + elements.begin);
}

Result<bool> Run::send(Slice& slice, const Instruction& instruction) {
  auto ready = arrived(slice, instruction.slot);
  if (!ready.ok() || !*ready) return ready;
  transport::Send& send = *slice.sends[instruction.index];
  send = transport::Send();
  send.peer = instruction.peer;
  send.payload = slot_bytes(slice, instruction.slot);
  send.header.communicator = job_.communicator;
  send.header.source = transport_.rank();
  send.header.sequence = job_.sequence;
  send.header.slice = slice.number;
  send.header.ordinal = instruction.ordinal;
  send.header.chunk = instruction.chunk;
  send.header.plan = job_.identity;
  send.header.payload_bytes = static_cast<std::uint32_t>(send.payload.size());
  send.header.payload_checksum = job_.checksum ? transport::payload_checksum(send.payload) : 0;
  slice.send_slots[instruction.index] = instruction.slot;
  slice.send_posted[instruction.index] = 1;
  ++slice.sends_under_way;
  transport::Send* pointer = &send;
  FERRULE_RETURN_IF_ERROR(transport_.post({{&pointer, 1}, {}}));
  return true;
}

Result<bool> Run::gather_terms(Slice& slice, const Instruction& instruction) {
  terms_.clear();
  const Range elements = range(slice, instruction.chunk);
  const bool reads_raw = job_.plan->codec(instruction.level).identity();
  aligned_used_ = 0;
  for (std::uint32_t i = 0; i < instruction.term_count; ++i) {
    const std::uint32_t slot = job_.plan->program().terms[instruction.first_term + i];
    if (slot == kOwnInput) {
      terms_.push_back({codec::Term::Kind::plain, input_at(elements.begin)});
      continue;
    }
    auto here = arrived(slice, slot);
    if (!here.ok() || !*here) return here;
    const std::span<const std::byte> bytes = slot_bytes(slice, slot);
    if (job_.plan->program().slots[slot].raw && !reads_raw) {
      terms_.push_back({codec::Term::Kind::plain, aligned(bytes)});
    } else {
      terms_.push_back({codec::Term::Kind::encoded, bytes.data()});
    }
  }
  return true;
}

// Where a transport gives messages at any address: a copy, which lives until the next instruction.
const std::byte* Run::aligned(std::span<const std::byte> elements) {
  if (reinterpret_cast<std::uintptr_t>(elements.data()) % element_bytes(job_.plan->dtype()) == 0) {
    return elements.data();
  }
  if (aligned_.size() == aligned_used_) aligned_.emplace_back();
  std::vector<std::byte>& copy = aligned_[aligned_used_++];
  copy.assign(elements.begin(), elements.end());
  return copy.data();
}

Result<bool> Run::arrived(Slice& slice, std::uint32_t slot) {
  const plan::Slot& where = job_.plan->program().slots[slot];
  if (where.home != SlotHome::received) return true;
  const transport::Recv& recv = *slice.recvs[where.index];
  if (!recv.done) return false;
  FERRULE_RETURN_IF_ERROR(recv.status);
  const transport::MessageHeader& header = recv.message.header();
  if (header.chunk != where.chunk) {
    return Status(ErrorCode::corrupt, fmt::format("rank {} sent chunk {} of slice {} where chunk {} was due",
                                                  recv.peer, header.chunk, slice.number, where.chunk));
  }
  return true;
}

std::span<const std::byte> Run::slot_bytes(const Slice& slice, std::uint32_t slot) const {
  const plan::Slot& where = job_.plan->program().slots[slot];
  const Range elements = range(slice, where.chunk);
  const std::size_t bytes = job_.plan->encoded_bytes(elements.count, where.level);
  switch (where.home) {
    case SlotHome::received:
      return slice.recvs[where.index]->message.payload();
    case SlotHome::input:
      return {input_at(elements.begin), bytes};
    case SlotHome::output:
      return {output_at(elements.begin), bytes};
    case SlotHome::scratch:
      break;
  }
  return {slice.scratch + where.index * align_up(job_.plan->scratch_slot_bytes()), bytes};
}

void Run::use_up(Slice& slice, std::uint32_t slot) {
  const plan::Slot& where = job_.plan->program().slots[slot];
  if (--slice.uses_left[slot] == 0 && where.home == SlotHome::received) {
    slice.recvs[where.index]->message.release();
  }
}

void Run::use_up_terms(Slice& slice, const Instruction& instruction) {
  for (std::uint32_t i = 0; i < instruction.term_count; ++i) {
    const std::uint32_t slot = job_.plan->program().terms[instruction.first_term + i];
    if (slot != kOwnInput) use_up(slice, slot);
  }
}

Status Run::reap_sends(Slice& slice) {
  for (std::size_t i = 0; slice.sends_under_way != 0 && i < slice.send_posted.size(); ++i) {
    if (slice.send_posted[i] == 0 || !slice.sends[i]->done) continue;
    slice.send_posted[i] = 0;
    --slice.sends_under_way;
    FERRULE_RETURN_IF_ERROR(slice.sends[i]->status);
    use_up(slice, slice.send_slots[i]);
  }
  return {};
}

bool Run::output_is_free(const Slice& slice, std::uint32_t chunk) const {
  if (!in_place() || slice.sends_under_way == 0) return true;
  for (std::size_t i = 0; i < slice.send_posted.size(); ++i) {
    if (slice.send_posted[i] == 0 || slice.sends[i]->done) continue;
    const plan::Slot& slot = job_.plan->program().slots[slice.send_slots[i]];
    if (slot.home == SlotHome::input && slot.chunk == chunk) return false;
  }
  return true;
}

codec::Feedback Run::feedback(const Instruction& instruction, std::size_t begin) const {
  if (job_.update == nullptr || !job_.update->active()) return {};
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

bool Run::cancel(Deadline grace) {
  const auto under_way = [this] {
    std::size_t sends = 0;
    for (std::size_t i = 0; i < active_; ++i) {
      for (std::size_t k = 0; k < slices_[i]->send_posted.size(); ++k) {
        sends += slices_[i]->send_posted[k] != 0 && !slices_[i]->sends[k]->done ? 1 : 0;
      }
    }
    return sends;
  };
  for (std::size_t i = 0; i < active_; ++i) {
    for (std::size_t k = 0; k < slices_[i]->recv_posted.size(); ++k) {
      if (slices_[i]->recv_posted[k] == 0) continue;
      transport::Recv& recv = *slices_[i]->recvs[k];
      if (!recv.done) transport_.cancel(recv);
      recv.message.release();
    }
  }
  while (under_way() != 0 && !grace.passed()) {
    if (!transport_.progress(grace).ok()) break;
  }
  const bool forced = under_way() != 0;
  for (std::size_t i = 0; i < active_; ++i) {
    for (std::size_t k = 0; k < slices_[i]->send_posted.size(); ++k) {
      transport::Send& send = *slices_[i]->sends[k];
      if (slices_[i]->send_posted[k] != 0 && !send.done) transport_.cancel(send);
    }
  }
  active_ = 0;
  return forced;
}

std::vector<std::int32_t> Run::waiting_for() const {
  std::vector<std::int32_t> ranks;
  if (active_ == 0) return ranks;
  const Slice& slice = *slices_[0];
  for (std::size_t i = 0; i < slice.recv_posted.size(); ++i) {
    if (slice.recv_posted[i] != 0 && !slice.recvs[i]->done) ranks.push_back(slice.recvs[i]->peer);
  }
  if (ranks.empty()) {
    for (std::size_t i = 0; i < slice.send_posted.size(); ++i) {
      if (slice.send_posted[i] != 0 && !slice.sends[i]->done) ranks.push_back(slice.sends[i]->peer);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

plan::Range Run::range(const Slice& slice, std::uint32_t chunk) const {
  return job_.plan->slice_of_chunk(chunk, slice.number);
}

const std::byte* Run::input_at(std::size_t element) const {
  return static_cast<const std::byte*>(job_.input) + element * element_bytes(job_.plan->dtype());
}

std::byte* Run::output_at(std::size_t element) const {
  return static_cast<std::byte*>(job_.output) + element * element_bytes(job_.plan->dtype());
}

}  // namespace ferrule::executor
