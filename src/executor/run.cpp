#include "executor/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "executor/slice.hpp"

namespace ferrule::executor {
namespace {

// Smaller jobs are not timed: reading clocks would be a tenth of them.
constexpr std::size_t kTimedBytes = 32 << 10;

using collectives::kOwnInput;
using plan::Instruction;
using plan::Range;
using plan::SlotHome;
using Clock = Deadline::Clock;

}  // namespace

Run::Run(transport::Transport& transport, Trace& trace) : transport_(transport), trace_(trace) {}
Run::~Run() = default;

Status Run::start_workers(std::uint32_t threads) { return workers_.start(threads); }

Status Run::start(const Job& job) {
  job_ = job;
  times_ = {};
  active_ = 0;
  next_slice_ = 0;
  started_ = moved_ = Clock::now();
  is_timed_ = job.plan->count() * element_bytes(job.plan->dtype()) > kTimedBytes || trace_.on();
  ready_.clear();
  const plan::Program& program = job_.plan->program();
  const std::size_t in_flight =
      std::min<std::size_t>(job_.plan->slices_in_flight(), job_.plan->slice_count());
  const std::size_t slice_scratch = align_up(job_.plan->scratch_slot_bytes()) * program.scratch_slots;
  device_ = job.backend;
  input_is_ready_ = true;
  if (device_ != nullptr) {
    FERRULE_RETURN_IF_ERROR(reserve_on_device(in_flight));
  } else if (scratch_.bytes() < slice_scratch * in_flight) {
    scratch_ = HugeBuffer();
    auto grown = HugeBuffer::allocate(slice_scratch * in_flight);
    FERRULE_RETURN_IF_ERROR(grown.status());
    scratch_ = std::move(grown).value();
  }
  while (slices_.size() < in_flight) slices_.push_back(std::make_unique<Slice>());
  std::byte* scratch = device_ != nullptr ? device_->scratch() : scratch_.data();
  for (std::size_t i = 0; i < in_flight; ++i) {
    slices_[i]->place = i;
    slices_[i]->scratch = scratch + i * slice_scratch;
  }
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
  slice.send_begins.resize(program.sends);
  slice.recv_posted.assign(program.receives.size(), 0);
  slice.fetched.clear();
  if (device_ == nullptr) return;
  slice.brought.assign(program.receives.size(), nullptr);
  slice.published.assign(program.slots.size(), std::nullopt);
  slice.deferred.clear();
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
    auto moved = walk_slices();
    FERRULE_RETURN_IF_ERROR(moved.status());
    if (!ready_.empty()) compute_ready();
    if (!held_.empty()) FERRULE_RETURN_IF_ERROR(release_held());
    if (active_ == 0 && held_.empty()) {
      if (device_ != nullptr) FERRULE_RETURN_IF_ERROR(end_on_device());
      if (trace_.on()) trace(Trace::Kind::collective, started_, Clock::now());
      return true;
    }
    if (interrupt.load(std::memory_order_relaxed) || (!*moved && until.passed())) return false;
    const auto start = is_timed_ || *moved ? Clock::now() : moved_;
    if (*moved) moved_ = start;
    const bool looks_on = device_ != nullptr && device_is_busy();
    if (looks_on) wait_a_little(*moved);
    FERRULE_RETURN_IF_ERROR(transport_.progress(*moved || looks_on ? Deadline(start) : until));
    if (!is_timed_) continue;
    const auto end = Clock::now();
    times_.wait_ns += ns_between(start, end);
    if (trace_.on() && !*moved) trace(Trace::Kind::wait, start, end);
  }
}

// Walks every slice under way, and replaces those that have ended. Returns whether anything was done.
Result<bool> Run::walk_slices() {
  bool moved = false;
  if (!input_is_ready_) {
    auto ready = look_for_input();
    if (!ready.ok() || !*ready) return ready;
    moved = true;
  }
  brings_later_ = false;
  for (std::size_t i = 0; i < active_;) {
    auto walked = walk(*slices_[i]);
    FERRULE_RETURN_IF_ERROR(walked.status());
    moved = moved || *walked;
    const Slice& slice = *slices_[i];
    if (slice.next != job_.plan->program().instructions.size() || slice.sends_under_way != 0) {
      ++i;
      continue;
    }
    moved = true;
    if (device_ != nullptr) FERRULE_RETURN_IF_ERROR(device_->recycle(slice.place));
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
  return moved;
}

// Executes instructions until one must wait, or, where there are workers, until one is for them. Returns
// whether anything was done.
Result<bool> Run::walk(Slice& slice) {
  FERRULE_RETURN_IF_ERROR(reap_sends(slice));
  const std::vector<Instruction>& instructions = job_.plan->program().instructions;
  const std::size_t before = slice.next;
  bool posted = false;
  if (device_ != nullptr) {
    auto deferred = post_deferred(slice);
    FERRULE_RETURN_IF_ERROR(deferred.status());
    posted = *deferred;
  }
  for (; slice.next < instructions.size(); ++slice.next) {
    const Instruction& instruction = instructions[slice.next];
    if (range(slice, instruction.chunk).count == 0) continue;
    const bool is_send = instruction.kind == Instruction::Kind::send;
    auto done = is_send ? send(slice, instruction) : is_ready(slice, instruction);
    FERRULE_RETURN_IF_ERROR(done.status());
    if (!*done) break;
    if (is_send) continue;
    if (device_ != nullptr) {
      FERRULE_RETURN_IF_ERROR(submit(slice, instruction));
      continue;
    }
    if (workers_.threads() > 1) {
      ready_.push_back(&slice);
      return true;
    }
    compute(slice, instruction);
    conclude(slice, instruction);
  }
  return posted || slice.next != before;
}

void Run::compute_ready() {
  const std::vector<Instruction>& instructions = job_.plan->program().instructions;
  workers_.run(ready_.size(), [&](std::size_t i) { compute(*ready_[i], instructions[ready_[i]->next]); });
  for (Slice* slice : ready_) conclude(*slice, instructions[slice->next++]);
  ready_.clear();
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
  slice.send_slots[instruction.index] = instruction.slot;
  slice.send_posted[instruction.index] = 1;
  ++slice.sends_under_way;
  FERRULE_RETURN_IF_ERROR(device_ != nullptr ? defer(slice, instruction) : post(slice, instruction.index));
  return true;
}

Status Run::post(Slice& slice, std::uint32_t index) {
  transport::Send& send = *slice.sends[index];
  send.header.payload_checksum = job_.checksum ? transport::payload_checksum(send.payload) : 0;
  if (trace_.on()) slice.send_begins[index] = Clock::now();
  transport::Send* pointer = &send;
  return transport_.post({{&pointer, 1}, {}});
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
  if (recv.message.space() != nullptr && device_ == nullptr) {
    FERRULE_RETURN_IF_ERROR(fetch_to_host(slice, where.index));
  }
  return true;
}

std::span<const std::byte> Run::slot_bytes(const Slice& slice, std::uint32_t slot) const {
  const plan::Slot& where = job_.plan->program().slots[slot];
  const Range elements = range(slice, where.chunk);
  const std::size_t bytes = job_.plan->encoded_bytes(elements.count, where.level);
  switch (where.home) {
    case SlotHome::received:
      if (is_fetched(slice, where.index)) return slice.fetched[where.index];
      return slice.recvs[where.index]->message.payload();
    case SlotHome::input:
      return {input_of(slice, where.chunk), bytes};
    case SlotHome::output:
      return {output_of(slice, where.chunk), bytes};
    case SlotHome::scratch:
      break;
  }
  return {scratch_at(slice, slot), bytes};
}

void Run::use_up(Slice& slice, std::uint32_t slot) {
  const plan::Slot& where = job_.plan->program().slots[slot];
  if (--slice.uses_left[slot] == 0 && where.home == SlotHome::received) {
    release(slice.recvs[where.index]->message);
  }
}

Status Run::reap_sends(Slice& slice) {
  for (std::size_t i = 0; slice.sends_under_way != 0 && i < slice.send_posted.size(); ++i) {
    if (slice.send_posted[i] == 0 || !slice.sends[i]->done) continue;
    slice.send_posted[i] = 0;
    --slice.sends_under_way;
    if (trace_.on()) trace_send(slice, i);
    FERRULE_RETURN_IF_ERROR(slice.sends[i]->status);
    use_up(slice, slice.send_slots[i]);
  }
  return {};
}

void Run::trace(Trace::Kind kind, Clock::time_point begin, Clock::time_point end) {
  const std::size_t bytes = job_.plan->count() * element_bytes(job_.plan->dtype());
  trace_.add({kind, -1, job_.sequence, 0, 0, kind == Trace::Kind::collective ? bytes : 0, begin, end});
}

void Run::trace_send(const Slice& slice, std::size_t index) {
  const transport::Send& send = *slice.sends[index];
  trace_.add({Trace::Kind::send, send.peer, job_.sequence, slice.number, send.header.chunk,
              send.header.payload_bytes, slice.send_begins[index], Clock::now()});
}

bool Run::cancel(Deadline grace) {
  ready_.clear();
  const bool drained = drain_device();
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
      // What the device may still read is kept until its backend has ended.
      drained ? recv.message.release() : held_.push_back({std::move(recv.message), std::nullopt});
    }
  }
  while (under_way() != 0 && !grace.passed()) {
    if (!transport_.progress(grace).ok()) break;
  }
  const bool forced = under_way() != 0 || !drained;
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

std::byte* Run::scratch_at(const Slice& slice, std::uint32_t slot) const {
  return slice.scratch + job_.plan->program().slots[slot].index * align_up(job_.plan->scratch_slot_bytes());
}

const std::byte* Run::input_of(const Slice& slice, std::uint32_t chunk) const {
  const std::size_t element = job_.plan->input_begin(chunk, slice.number);
  return static_cast<const std::byte*>(job_.input) + element * element_bytes(job_.plan->dtype());
}

std::byte* Run::output_of(const Slice& slice, std::uint32_t chunk) const {
  const std::size_t element = job_.plan->output_begin(chunk, slice.number);
  return static_cast<std::byte*>(job_.output) + element * element_bytes(job_.plan->dtype());
}

}  // namespace ferrule::executor
