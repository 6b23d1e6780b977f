#include "cuda/backend/events.hpp"

#include <utility>

#include "cuda/backend/error.hpp"

namespace ferrule::cuda {

EventPool::~EventPool() {
  const OnDevice here(device_);
  for (cudaEvent_t event : spare_) static_cast<void>(cudaEventDestroy(event));
}

Result<cudaEvent_t> EventPool::take() {
  const std::lock_guard lock(mutex_);
  if (!spare_.empty()) {
    cudaEvent_t event = spare_.back();
    spare_.pop_back();
    return event;
  }
  cudaEvent_t event = nullptr;
  FERRULE_CUDA(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
  return event;
}

Result<cudaEvent_t> EventPool::record(cudaStream_t stream) {
  const OnDevice here(device_);
  auto event = take();
  if (!event.ok()) return event;
  const Status recorded = to_status(cudaEventRecord(*event, stream), "marking a place in a stream");
  if (recorded.ok()) return event;
  give(*event);
  return recorded;
}

void EventPool::give(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  spare_.push_back(event);
}

Result<bool> query(cudaEvent_t event) {
  const cudaError_t error = cudaEventQuery(event);
  if (error == cudaErrorNotReady) return false;
  FERRULE_CUDA(error, "work that was submitted before, seen when asking for an event,");
  return true;
}

Result<bool> EventMark::passed() {
  const OnDevice here(pool_->device());
  return query(event_);
}

Status EventMark::hold(void* stream) {
  const OnDevice here(pool_->device());
  return to_status(cudaStreamWaitEvent(static_cast<cudaStream_t>(stream), event_, 0),
                   "making the caller's stream wait for the result");
}

Result<std::shared_ptr<executor::Mark>> mark_stream(const std::shared_ptr<EventPool>& pool,
                                                    cudaStream_t stream) {
  auto event = pool->record(stream);
  FERRULE_RETURN_IF_ERROR(event.status());
  return std::shared_ptr<executor::Mark>(std::make_shared<EventMark>(pool, *event));
}

}  // namespace ferrule::cuda
