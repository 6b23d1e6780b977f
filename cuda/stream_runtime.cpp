#include "cuda/stream_runtime.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <string>
#include <utility>

#include "base/log.hpp"

namespace ferrule::cuda {
namespace {

Status as_status(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return {};
  return {ErrorCode::system,
          fmt::format("{}: {} ({})", call, cudaGetErrorString(error), cudaGetErrorName(error))};
}

cudaStream_t handle(void* stream) { return static_cast<cudaStream_t>(stream); }

/// While one lives, calls of this thread disturb no capture: of another thread, or of this one.
class Undisturbing {
 public:
  Undisturbing() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~Undisturbing() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  Undisturbing(const Undisturbing&) = delete;
  Undisturbing& operator=(const Undisturbing&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

class EventMark final : public executor::StreamMark {
 public:
  explicit EventMark(cudaEvent_t event) : event_(event) {}
  EventMark(const EventMark&) = delete;
  EventMark& operator=(const EventMark&) = delete;
  ~EventMark() override { cudaEventDestroy(event_); }

  Result<bool> passed() override {
    const Undisturbing scope;
    const cudaError_t error = cudaEventQuery(event_);
    if (error == cudaErrorNotReady) return false;
    FERRULE_RETURN_IF_ERROR(as_status(error, "cudaEventQuery"));
    return true;
  }

 private:
  cudaEvent_t event_;
};

const char* kind_of(cudaMemoryType type) {
  switch (type) {
    case cudaMemoryTypeUnregistered:
    case cudaMemoryTypeHost:
      return "host memory";
    case cudaMemoryTypeManaged:
      return "managed memory";
    case cudaMemoryTypeDevice:
      break;
  }
  return "device memory";
}

}  // namespace

StreamRuntime::StreamRuntime() { cudaGetDevice(&device_); }

Result<bool> StreamRuntime::is_captured(void* stream) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  FERRULE_RETURN_IF_ERROR(as_status(cudaStreamIsCapturing(handle(stream), &status), "cudaStreamIsCapturing"));
  if (status == cudaStreamCaptureStatusInvalidated) {
    return Status(ErrorCode::invalid_argument, "the capture of the CUDA graph has failed before this call");
  }
  return status == cudaStreamCaptureStatusActive;
}

Result<std::byte*> StreamRuntime::allocate(std::size_t bytes) {
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error == cudaSuccess) return static_cast<std::byte*>(memory);
  cudaGetLastError();  // it is told here, and shall not turn up in the caller's next check
  return Status(ErrorCode::system, fmt::format("{} bytes of device memory for encoded data: {}", bytes,
                                               cudaGetErrorString(error)));
}

void StreamRuntime::release(std::byte* memory) {
  const cudaError_t error = cudaFree(memory);
  if (error != cudaSuccess) log::warn("cudaFree: {}", cudaGetErrorString(error));
}

Result<std::shared_ptr<executor::StreamMark>> StreamRuntime::mark(void* stream) {
  cudaEvent_t event = nullptr;
  FERRULE_RETURN_IF_ERROR(
      as_status(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags"));
  std::shared_ptr<executor::StreamMark> made = std::make_shared<EventMark>(event);
  FERRULE_RETURN_IF_ERROR(as_status(cudaEventRecord(event, handle(stream)), "cudaEventRecord"));
  return made;
}

Status StreamRuntime::check_pointer(const void* pointer, const char* name) const {
  cudaPointerAttributes attributes{};
  FERRULE_RETURN_IF_ERROR(
      as_status(cudaPointerGetAttributes(&attributes, pointer), "cudaPointerGetAttributes"));
  if (attributes.type == cudaMemoryTypeDevice && attributes.device == device_) return {};
  const std::string where = attributes.type == cudaMemoryTypeDevice
                                ? fmt::format("memory of device {}", attributes.device)
                                : kind_of(attributes.type);
  return {
      ErrorCode::invalid_argument,
      fmt::format("NCCL moves memory of device {} here, but {} is {}. Copy the tensor to the device, or use "
                  "transport ucx or loopback for it",
                  device_, name, where)};
}

Status StreamRuntime::copy(void* to, const void* from, std::size_t bytes, void* stream) {
  return as_status(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, handle(stream)),
                   "cudaMemcpyAsync");
}

Status StreamRuntime::clear(void* memory, std::size_t bytes, void* stream) {
  return as_status(cudaMemsetAsync(memory, 0, bytes, handle(stream)), "cudaMemsetAsync");
}

}  // namespace ferrule::cuda
