// Streams and events.
#include <algorithm>
#include <utility>

#include "runtime.hpp"

using fake_cuda::Capture;
using fake_cuda::keep;
using fake_cuda::Operation;

namespace {

using Lock = std::unique_lock<std::mutex>;

// A captured stream or event may not be looked at by the host.
cudaError_t spoil(Capture& capture, cudaError_t error) {
  const std::lock_guard lock(capture.mutex);
  capture.invalidated = true;
  return error;
}

// Waiting in `stream` for an event of a capture: the stream joins it.
cudaError_t wait_in_capture(CUstream_st& stream, const std::shared_ptr<Capture>& capture,
                            const std::set<std::size_t>& tail) {
  const std::lock_guard lock(capture->mutex);
  if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (stream.capture != nullptr && stream.capture != capture) return cudaErrorStreamCaptureMerge;
  if (stream.capture == nullptr) {
    stream.capture = capture;
    stream.tail.clear();
    capture->joined.insert(&stream);
  }
  stream.tail.insert(tail.begin(), tail.end());
  return cudaSuccess;
}

bool is_under_way(const std::shared_ptr<Capture>& capture) {
  if (capture == nullptr) return false;
  const std::lock_guard lock(capture->mutex);
  return !capture->joined.empty();
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  FAKE_CUDA_ENTER();
  if (flags > cudaStreamNonBlocking) return keep(cudaErrorInvalidValue);
  *stream = fake_cuda::make_stream(flags == cudaStreamDefault);
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  FAKE_CUDA_ENTER();
  return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  FAKE_CUDA_ENTER();
  return cudaStreamCreateWithFlags(stream, flags);
}

// Returns at once: what is queued is still done.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  FAKE_CUDA_ENTER();
  if (!fake_cuda::streams().remove(stream)) return keep(cudaErrorInvalidResourceHandle);
  if (stream->capture != nullptr) spoil(*stream->capture, cudaErrorStreamCaptureInvalidated);
  fake_cuda::retire(std::move(stream->stream));
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  FAKE_CUDA_ENTER();
  cudaStream_t stream = fake_cuda::resolve(handle);
  if (stream == nullptr) return keep(cudaErrorInvalidResourceHandle);
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  {
    const Lock lock(stream->mutex);
    if (stream->capture != nullptr) return keep(spoil(*stream->capture, cudaErrorStreamCaptureUnsupported));
  }
  fake_cuda::count_host_sync();
  fake_cuda::push(*stream, {Operation::Kind::memory, "synchronise", [] {}, nullptr});  // legacy order
  stream->stream->mark()->wait_on_host("cudaStreamSynchronize");
  return keep(fake_cuda::enter("what ran before"));
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  FAKE_CUDA_ENTER();
  cudaStream_t stream = fake_cuda::resolve(handle);
  if (stream == nullptr) return keep(cudaErrorInvalidResourceHandle);
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  const Lock lock(stream->mutex);
  if (stream->capture != nullptr) return keep(spoil(*stream->capture, cudaErrorStreamCaptureUnsupported));
  return stream->stream->idle() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned /*flags*/) {
  FAKE_CUDA_ENTER();
  cudaStream_t stream = fake_cuda::resolve(handle);
  if (stream == nullptr || !fake_cuda::events().has(event)) return keep(cudaErrorInvalidResourceHandle);
  std::shared_ptr<fake_cuda::Completion> completion;
  std::shared_ptr<Capture> capture;
  std::set<std::size_t> tail;
  {
    const Lock lock(event->mutex);
    completion = event->completion;
    capture = event->capture;
    tail = event->tail;
  }
  const Lock lock(stream->mutex);
  if (is_under_way(capture)) return keep(wait_in_capture(*stream, capture, tail));
  if (stream->capture != nullptr && completion != nullptr) {
    return keep(spoil(*stream->capture, cudaErrorStreamCaptureIsolation));
  }
  if (completion != nullptr) stream->stream->wait_for(completion);
  return cudaSuccess;
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  FAKE_CUDA_ENTER();
  if (function == nullptr) return keep(cudaErrorInvalidValue);
  return keep(fake_cuda::submit(
      stream, {Operation::Kind::host_function, "host function", [=] { function(data); }, nullptr}));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  FAKE_CUDA_ENTER();
  auto* made = new CUevent_st;
  made->timed = (flags & cudaEventDisableTiming) == 0;
  *event = fake_cuda::events().add(made);
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  FAKE_CUDA_ENTER();
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  FAKE_CUDA_ENTER();
  if (!fake_cuda::events().remove(event)) return keep(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  FAKE_CUDA_ENTER();
  cudaStream_t stream = fake_cuda::resolve(handle);
  if (stream == nullptr || !fake_cuda::events().has(event)) return keep(cudaErrorInvalidResourceHandle);
  if (fake_cuda::is_legacy(handle)) {
    // Through submit(), which knows what a capture makes of the default stream.
    const Operation nothing{Operation::Kind::memory, "event", [] {}, nullptr};
    const cudaError_t refused = fake_cuda::submit(handle, nothing);
    if (refused != cudaSuccess) return keep(refused);
  }
  const Lock lock(stream->mutex);
  const Lock inner(event->mutex);
  event->capture = stream->capture;
  event->tail = stream->tail;
  event->completion = nullptr;
  if (stream->capture == nullptr) event->completion = stream->stream->mark();
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  FAKE_CUDA_ENTER();
  if (!fake_cuda::events().has(event)) return keep(cudaErrorInvalidResourceHandle);
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  const Lock lock(event->mutex);
  if (event->capture != nullptr) return keep(spoil(*event->capture, cudaErrorCapturedEvent));
  return event->completion == nullptr || event->completion->done() ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  FAKE_CUDA_ENTER();
  if (!fake_cuda::events().has(event)) return keep(cudaErrorInvalidResourceHandle);
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  fake_cuda::count_host_sync();
  std::shared_ptr<fake_cuda::Completion> completion;
  {
    const Lock lock(event->mutex);
    if (event->capture != nullptr) return keep(spoil(*event->capture, cudaErrorCapturedEvent));
    completion = event->completion;
  }
  if (completion != nullptr) completion->wait_on_host("cudaEventSynchronize");
  return keep(fake_cuda::enter("what ran before"));
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  FAKE_CUDA_ENTER();
  double seconds[2] = {};
  cudaEvent_t both[2] = {begin, end};
  for (int i = 0; i < 2; ++i) {
    if (!fake_cuda::events().has(both[i])) return keep(cudaErrorInvalidResourceHandle);
    const Lock lock(both[i]->mutex);
    if (!both[i]->timed || both[i]->completion == nullptr) return keep(cudaErrorInvalidResourceHandle);
    if (!both[i]->completion->done()) return cudaErrorNotReady;
    seconds[i] = both[i]->completion->seconds();
  }
  *milliseconds = static_cast<float>((seconds[1] - seconds[0]) * 1e3);
  return cudaSuccess;
}
}
