// Jobs on a device: what differs from host memory is when bytes may leave it and when those of a peer may go
// back. Everything else is the order of the backend's streams.
#include <algorithm>
#include <thread>
#include <utility>

#include "executor/run.hpp"
#include "executor/slice.hpp"

namespace ferrule::executor {
namespace {

using plan::Instruction;
using plan::SlotHome;
using Clock = Deadline::Clock;

constexpr std::uint32_t kNowhere = 0xffffffffU;
// A kernel and a copy of a slice take some 20 us: looks before sleeping, then how long.
constexpr std::uint32_t kLooks = 400;
constexpr std::chrono::microseconds kNap{20};
// For what a failed collective has submitted to end: kernels of a few hundred microseconds, behind whatever
// else the device is busy with.
constexpr std::chrono::seconds kDrainLimit{10};

}  // namespace

Status Run::reserve_on_device(std::size_t places) {
  const plan::Program& program = job_.plan->program();
  input_is_ready_ = job_.input_ready == nullptr;
  sends_device_memory_ = transport_.caps().device_memory && !job_.checksum;
  brings_later_ = false;
  idle_looks_ = 0;
  end_mark_ = nullptr;
  published_index_.assign(program.slots.size(), kNowhere);
  std::uint32_t published = 0;
  for (const Instruction& instruction : program.instructions) {
    if (instruction.kind != Instruction::Kind::send || sends_device_memory_) continue;
    std::uint32_t& index = published_index_[instruction.slot];
    if (program.slots[instruction.slot].home != SlotHome::received && index == kNowhere) index = published++;
  }
  return device_->reserve({.places = places,
                           .scratch_bytes = align_up(job_.plan->scratch_slot_bytes()) * program.scratch_slots,
                           .received_slots = program.receives.size(),
                           .published_slots = published,
                           .slot_bytes = std::max(job_.plan->slot_bytes(), job_.plan->scratch_slot_bytes())});
}

Result<bool> Run::look_for_input() {
  auto passed = job_.input_ready->passed();
  if (passed.ok()) input_is_ready_ = *passed;
  return passed;
}

// ---- arithmetic

Status Run::submit(Slice& slice, const Instruction& instruction) {
  if (is_timed_) slice.begin = Clock::now();
  const codec::Codec& codec = job_.plan->codec(instruction.level);
  Status status;
  if (instruction.kind == Instruction::Kind::decode) {
    status = submit_decode(slice, instruction);
  } else if (instruction.kind == Instruction::Kind::fold) {
    status = device_->decode(codec, fold_args(slice, instruction), {});
  } else if (!instruction.copies_nothing) {
    status = device_->encode(codec, encode_args(slice, instruction));
  } else {
    status = submit_kept_residual(slice, instruction.chunk);
  }
  if (is_timed_) slice.end = Clock::now();
  if (status.ok()) conclude(slice, instruction);
  return status;
}

Status Run::submit_decode(Slice& slice, const Instruction& instruction) {
  const codec::DecodeArgs args = decode_args(slice, instruction);
  Kept kept;
  if (feeds_back() && job_.plan->contract().brings(transport_.rank(), instruction.chunk)) {
    const std::size_t begin = job_.plan->input_begin(instruction.chunk, slice.number);
    kept = {job_.update->before() + begin, job_.update->after() + begin};
  }
  if (!decodes_nothing(slice, instruction)) {
    FERRULE_RETURN_IF_ERROR(device_->decode(job_.plan->codec(instruction.level), args, kept));
  } else if (kept.after != nullptr) {
    FERRULE_RETURN_IF_ERROR(device_->keep_where_not_finite(args, kept));
  }
  return instruction.keeps_residual ? submit_kept_residual(slice, instruction.chunk) : Status();
}

Status Run::submit_kept_residual(const Slice& slice, std::uint32_t chunk) {
  if (!feeds_back()) return {};
  const std::size_t begin = job_.plan->input_begin(chunk, slice.number);
  return device_->copy(job_.update->after() + begin, job_.update->before() + begin,
                       range(slice, chunk).count * sizeof(float));
}

Status Run::end_on_device() {
  auto mark = device_->mark();
  if (mark.ok()) end_mark_ = *mark;
  return mark.status();
}

// ---- what peers have sent

Result<bool> Run::bring(Slice& slice, std::uint32_t slot, std::span<const std::byte> bytes) {
  const plan::Slot& where = job_.plan->program().slots[slot];
  if (where.home != SlotHome::received) return true;
  const std::byte*& there = slice.brought[where.index];
  if (there != nullptr) return true;
  const MemorySpace* space = slice.recvs[where.index]->message.space();
  if (space == &device_->space()) {
    there = bytes.data();
    return true;
  }
  if (space != nullptr) {  // another device's: by way of the host
    FERRULE_RETURN_IF_ERROR(fetch_to_host(slice, where.index));
    bytes = slice.fetched[where.index];
  }
  auto brought = device_->bring({slice.place, where.index}, bytes);
  FERRULE_RETURN_IF_ERROR(brought.status());
  there = *brought;
  if (there == nullptr) brings_later_ = true;
  return there != nullptr;
}

std::span<const std::byte> Run::on_device(const Slice& slice, std::uint32_t slot,
                                          std::span<const std::byte> bytes) const {
  const plan::Slot& where = job_.plan->program().slots[slot];
  return where.home == SlotHome::received ? std::span(slice.brought[where.index], bytes.size()) : bytes;
}

Status Run::fetch_to_host(Slice& slice, std::uint32_t receive) const {
  if (is_fetched(slice, receive)) return {};
  slice.fetched.resize(slice.recvs.size());
  std::vector<std::byte>& copy = slice.fetched[receive];
  const transport::Received& message = slice.recvs[receive]->message;
  copy.resize(message.payload().size());
  return message.space()->read(copy.data(), message.payload().data(), copy.size());
}

void Run::release(transport::Received& message) {
  if (device_ == nullptr || message.space() == nullptr) return message.release();
  held_.push_back({std::move(message), std::nullopt});
}

// One fence serves all that were used since the last.
Status Run::release_held() {
  if (!held_.back().until) {
    auto fence = device_->fence();
    FERRULE_RETURN_IF_ERROR(fence.status());
    for (auto held = held_.rbegin(); held != held_.rend() && !held->until; ++held) held->until = *fence;
  }
  while (!held_.empty()) {
    auto passed = device_->passed(*held_.front().until);
    FERRULE_RETURN_IF_ERROR(passed.status());
    if (!*passed) break;
    held_.pop_front();
  }
  return {};
}

// ---- what peers get

Status Run::defer(Slice& slice, const Instruction& instruction) {
  transport::Send& send = *slice.sends[instruction.index];
  const plan::Slot& where = job_.plan->program().slots[instruction.slot];
  if (where.home == SlotHome::received) {
    send.space = is_fetched(slice, where.index) ? nullptr : slice.recvs[where.index]->message.space();
    return post(slice, instruction.index);
  }
  std::optional<Published>& published = slice.published[instruction.slot];
  if (!published && sends_device_memory_) {
    auto fence = device_->fence();
    FERRULE_RETURN_IF_ERROR(fence.status());
    published = Published{send.payload, &device_->space(), *fence};
  } else if (!published) {
    auto made = device_->publish({slice.place, published_index_[instruction.slot]}, send.payload);
    FERRULE_RETURN_IF_ERROR(made.status());
    published = *made;
  }
  send.payload = published->bytes;
  send.space = published->space;
  slice.deferred.push_back(instruction.index);
  return {};
}

Result<bool> Run::post_deferred(Slice& slice) {
  bool any = false;
  for (std::size_t i = 0; i < slice.deferred.size();) {
    const std::uint32_t index = slice.deferred[i];
    auto passed = device_->passed(slice.published[slice.send_slots[index]]->ready);
    FERRULE_RETURN_IF_ERROR(passed.status());
    if (!*passed) {
      ++i;
      continue;
    }
    slice.deferred.erase(slice.deferred.begin() + static_cast<std::ptrdiff_t>(i));
    FERRULE_RETURN_IF_ERROR(post(slice, index));
    any = true;
  }
  return any;
}

// ---- waiting

// Something ends on the device that the transport will not wake us for.
bool Run::device_is_busy() const {
  if (!input_is_ready_ || brings_later_ || !held_.empty()) return true;
  for (std::size_t i = 0; i < active_; ++i) {
    if (!slices_[i]->deferred.empty()) return true;
  }
  return false;
}

void Run::wait_a_little(bool moved) {
  idle_looks_ = moved ? 0 : idle_looks_ + 1;
  if (idle_looks_ > kLooks) std::this_thread::sleep_for(kNap);
}

// Before a failed job gives anything back: kernels and copies may still read it.
bool Run::drain_device() {
  if (device_ == nullptr) return true;
  for (std::size_t i = 0; i < active_; ++i) {
    for (const std::uint32_t index : slices_[i]->deferred) slices_[i]->send_posted[index] = 0;
    slices_[i]->deferred.clear();
  }
  const Deadline limit = Deadline::after(kDrainLimit);
  while (!device_->idle()) {
    if (limit.passed()) return false;
    std::this_thread::sleep_for(kNap);
  }
  held_.clear();
  return true;
}

}  // namespace ferrule::executor
