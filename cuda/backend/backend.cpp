#include "cuda/backend/backend.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <cstring>
#include <thread>
#include <utility>

#include "base/deadline.hpp"
#include "base/log.hpp"
#include "cuda/backend/error.hpp"

namespace ferrule::cuda {
namespace {

using executor::SlotAt;
using executor::Ticket;

// What is left at the end are the kernels of one collective, behind whatever else the device is busy with.
constexpr std::chrono::seconds kLastWait{30};
constexpr std::chrono::microseconds kNap{50};

}  // namespace

CudaBackend::CudaBackend(const MemorySpace& space, std::shared_ptr<EventPool> events)
    : space_(space), events_(std::move(events)), compute_(events_), incoming_(events_), outgoing_(events_) {}

Result<std::unique_ptr<executor::Backend>> CudaBackend::make(const MemorySpace& space,
                                                             std::shared_ptr<EventPool> events) {
  const OnDevice here(space.device());
  std::unique_ptr<CudaBackend> made(new CudaBackend(space, std::move(events)));
  for (Lane* lane : {&made->compute_, &made->incoming_, &made->outgoing_}) {
    FERRULE_RETURN_IF_ERROR(lane->open());
  }
  return std::unique_ptr<executor::Backend>(std::move(made));
}

CudaBackend::~CudaBackend() {
  const OnDevice here(space_.device());
  const Deadline limit = Deadline::after(kLastWait);
  while (!idle() && !limit.passed()) std::this_thread::sleep_for(kNap);
  if (idle()) return;
  log::warn("CUDA: device {} has not ended a communicator's work in {} s: its memory is not freed",
            space_.device(), kLastWait.count());
  staging_.abandon();
  for (Lane* lane : {&compute_, &incoming_, &outgoing_}) lane->abandon();
}

bool CudaBackend::idle() {
  const OnDevice here(space_.device());
  return compute_.idle() && incoming_.idle() && outgoing_.idle();
}

// ---- memory

Status CudaBackend::reserve(const executor::Demand& demand) {
  const OnDevice here(space_.device());
  FERRULE_RETURN_IF_ERROR(staging_.reserve(demand));
  // The last kernels and copies of the job before may still be under way, in places that are cut otherwise
  // now.
  auto last = compute_.mark();
  FERRULE_RETURN_IF_ERROR(last.status());
  recycled_.assign(demand.places, *last);
  arrivals_.assign(demand.places * demand.received_slots, 0);
  incoming_before_ = incoming_.last();
  return {};
}

Status CudaBackend::recycle(std::size_t place) {
  if (staging_.demand().received_slots == 0) return {};
  const OnDevice here(space_.device());
  auto last = compute_.mark();
  if (last.ok()) recycled_[place] = *last;
  return last.status();
}

Status CudaBackend::copy_async(void* to, const void* from, std::size_t bytes, Lane& lane) const {
  return to_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, lane.stream()), "starting a copy");
}

Result<const std::byte*> CudaBackend::bring(const SlotAt& at, std::span<const std::byte> bytes) {
  const OnDevice here(space_.device());
  std::uint64_t& arrival = arrivals_[at.place * staging_.demand().received_slots + at.slot];
  auto free = incoming_.passed(std::max(arrival, incoming_before_));
  FERRULE_RETURN_IF_ERROR(free.status());
  if (!*free) return static_cast<const std::byte*>(nullptr);
  std::byte* host = staging_.received_on_host(at);
  std::byte* device = staging_.received_on_device(at);
  std::memcpy(host, bytes.data(), bytes.size());
  FERRULE_RETURN_IF_ERROR(incoming_.follow(compute_, std::exchange(recycled_[at.place], 0)));
  FERRULE_RETURN_IF_ERROR(copy_async(device, host, bytes.size(), incoming_));
  auto mark = incoming_.mark();
  FERRULE_RETURN_IF_ERROR(mark.status());
  arrival = *mark;
  FERRULE_RETURN_IF_ERROR(compute_.follow(incoming_, *mark));
  return static_cast<const std::byte*>(device);
}

Result<executor::Published> CudaBackend::publish(const SlotAt& at, std::span<const std::byte> bytes) {
  const OnDevice here(space_.device());
  std::byte* host = staging_.published(at);
  auto written = compute_.mark();
  FERRULE_RETURN_IF_ERROR(written.status());
  FERRULE_RETURN_IF_ERROR(outgoing_.follow(compute_, *written));
  FERRULE_RETURN_IF_ERROR(copy_async(host, bytes.data(), bytes.size(), outgoing_));
  auto left = outgoing_.mark();
  FERRULE_RETURN_IF_ERROR(left.status());
  return executor::Published{{host, bytes.size()}, nullptr, {Ticket::Lane::outgoing, *left}};
}

// ---- order

Result<Ticket> CudaBackend::fence() {
  auto mark = compute_.mark();
  FERRULE_RETURN_IF_ERROR(mark.status());
  return Ticket{Ticket::Lane::compute, *mark};
}

Result<bool> CudaBackend::passed(const Ticket& ticket) {
  const OnDevice here(space_.device());
  return (ticket.lane == Ticket::Lane::compute ? compute_ : outgoing_).passed(ticket.number);
}

Result<std::shared_ptr<executor::Mark>> CudaBackend::mark() {
  return mark_stream(events_, compute_.stream());
}

// ---- arithmetic

Status CudaBackend::check(const codec::Codec& codec, DType dtype, ReduceOp op) const {
  auto found = find_kernels(codec);
  FERRULE_RETURN_IF_ERROR(found.status());
  if (codec.supports(dtype, op)) return {};
  return Status(ErrorCode::unsupported,
                fmt::format("codec '{}' does not take this element type and operation", codec.spec()));
}

Result<CodecKernels> CudaBackend::kernels(const codec::Codec& codec) {
  const auto known = kernels_.find(&codec);
  if (known != kernels_.end()) return known->second;
  auto found = find_kernels(codec);
  if (found.ok()) kernels_.emplace(&codec, *found);
  return found;
}

Status CudaBackend::encode(const codec::Codec& codec, const codec::EncodeArgs& args) {
  const OnDevice here(space_.device());
  auto found = kernels(codec);
  FERRULE_RETURN_IF_ERROR(found.status());
  return cuda::encode(*found, args, compute_.stream());
}

// A lossy decode says on the device whether all was finite, in a word of its own: residuals are then put back
// where the CPU would do it, and hardly anything is read where all is well.
Status CudaBackend::decode(const codec::Codec& codec, const codec::DecodeArgs& args,
                           const executor::Kept& kept) {
  const OnDevice here(space_.device());
  auto found = kernels(codec);
  FERRULE_RETURN_IF_ERROR(found.status());
  std::uint32_t* flag = nullptr;
  if (kept.after != nullptr && !codec.exact()) {
    auto word = next_flag();
    FERRULE_RETURN_IF_ERROR(word.status());
    flag = *word;
  }
  FERRULE_RETURN_IF_ERROR(cuda::decode(*found, args, compute_.stream(), flag));
  return kept.after == nullptr ? Status() : keep(args, kept, flag);
}

Status CudaBackend::keep_where_not_finite(const codec::DecodeArgs& decoded, const executor::Kept& kept) {
  const OnDevice here(space_.device());
  return keep(decoded, kept, nullptr);
}

Status CudaBackend::keep(const codec::DecodeArgs& decoded, const executor::Kept& kept,
                         const std::uint32_t* only_if) {
  return cuda::keep_where_not_finite({.out = decoded.out,
                                      .dtype = decoded.dtype,
                                      .count = decoded.count,
                                      .before = kept.before,
                                      .after = kept.after,
                                      .only_if = only_if},
                                     compute_.stream());
}

// One launch clears as many words as there are, for as many decodes.
Result<std::uint32_t*> CudaBackend::next_flag() {
  if (next_flag_ == Staging::kFlags) {
    FERRULE_CUDA(
        cudaMemsetAsync(staging_.flags(), 0, Staging::kFlags * sizeof(std::uint32_t), compute_.stream()),
        "clearing flags");
    next_flag_ = 0;
  }
  return reinterpret_cast<std::uint32_t*>(staging_.flags()) + next_flag_++;
}

Status CudaBackend::copy(void* to, const void* from, std::size_t bytes) {
  const OnDevice here(space_.device());
  return copy_async(to, from, bytes, compute_);
}

}  // namespace ferrule::cuda
