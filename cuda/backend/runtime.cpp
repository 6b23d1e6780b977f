#include "cuda/backend/runtime.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <map>
#include <mutex>
#include <utility>

#include "cuda/backend/backend.hpp"
#include "cuda/backend/error.hpp"
#include "cuda/backend/space.hpp"

namespace ferrule::cuda {
namespace {

const char* memory_name(cudaMemoryType type) {
  switch (type) {
    case cudaMemoryTypeHost:
      return "pinned host memory";
    case cudaMemoryTypeManaged:
      return "managed memory";
    case cudaMemoryTypeDevice:
      return "device memory";
    default:
      return "host memory";
  }
}

/// What all communicators share of one device.
struct Device {
  explicit Device(int number) : space(number), events(std::make_shared<EventPool>(number)) {}
  DeviceSpace space;
  std::shared_ptr<EventPool> events;
};

class CudaRuntime final : public executor::DeviceRuntime {
 public:
  Result<int> device_of(const void* pointer, const char* name) override {
    cudaPointerAttributes attributes{};
    FERRULE_CUDA(cudaPointerGetAttributes(&attributes, pointer), "asking whose memory a pointer is");
    if (attributes.type == cudaMemoryTypeDevice) return attributes.device;
    return Status(ErrorCode::invalid_argument,
                  fmt::format("{} is in {}, and the call says device memory: without a stream and with "
                              "ferruleHostMemory it can be reduced as it is",
                              name, memory_name(attributes.type)));
  }

  Result<int> current_device() override {
    int device = 0;
    FERRULE_CUDA(cudaGetDevice(&device), "asking for the current device");
    return device;
  }

  Result<MemorySpace*> space(int device) override {
    auto found = find(device);
    FERRULE_RETURN_IF_ERROR(found.status());
    return static_cast<MemorySpace*>(&(*found)->space);
  }

  Result<std::unique_ptr<executor::Backend>> make_backend(int device) override {
    auto found = find(device);
    FERRULE_RETURN_IF_ERROR(found.status());
    return CudaBackend::make((*found)->space, (*found)->events);
  }

  Result<std::shared_ptr<executor::Mark>> mark(int device, void* stream) override {
    auto found = find(device);
    FERRULE_RETURN_IF_ERROR(found.status());
    const OnDevice here(device);
    cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    FERRULE_CUDA(cudaStreamIsCapturing(static_cast<cudaStream_t>(stream), &capture),
                 "asking about the stream");
    if (capture != cudaStreamCaptureStatusNone) {
      return Status(
          ErrorCode::unsupported,
          "the stream is being captured in a CUDA graph, and this transport is driven by the host: make "
          "the call outside of the capture, or use the transport nccl");
    }
    return mark_stream((*found)->events, static_cast<cudaStream_t>(stream));
  }

 private:
  Result<Device*> find(int number) {
    const std::lock_guard lock(mutex_);
    const auto known = devices_.find(number);
    if (known != devices_.end()) return known->second.get();
    int count = 0;
    FERRULE_CUDA(cudaGetDeviceCount(&count), "looking for devices");
    if (number < 0 || number >= count) {
      return Status(ErrorCode::invalid_argument,
                    fmt::format("there is no CUDA device {}: this process sees {}", number, count));
    }
    return devices_.emplace(number, std::make_unique<Device>(number)).first->second.get();
  }

  std::mutex mutex_;
  std::map<int, std::unique_ptr<Device>> devices_;
};

}  // namespace

std::unique_ptr<executor::DeviceRuntime> make_runtime() { return std::make_unique<CudaRuntime>(); }

}  // namespace ferrule::cuda
