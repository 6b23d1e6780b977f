#include <atomic>

#include "executor/backend.hpp"

namespace ferrule::executor {
namespace {

std::atomic<DeviceRuntime*> the_runtime{nullptr};

}  // namespace

Result<DeviceRuntime*> device_runtime() {
  DeviceRuntime* runtime = the_runtime.load(std::memory_order_acquire);
  if (runtime != nullptr) return runtime;
  return Status(
      ErrorCode::unsupported,
      "tensors in device memory: this build of the library has no CUDA. Build it where nvcc is found "
      "(the end of the configuration says), or copy the tensor to host memory");
}

void set_device_runtime(DeviceRuntime* runtime) { the_runtime.store(runtime, std::memory_order_release); }

}  // namespace ferrule::executor
