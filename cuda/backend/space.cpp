#include "cuda/backend/space.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "cuda/backend/error.hpp"

namespace ferrule::cuda {
namespace {

/// For one blocking operation that is ordered with no other stream: CUDA's default stream would wait for
/// those of the caller.
class OwnStream {
 public:
  OwnStream() : error_(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)) {}
  ~OwnStream() {
    if (error_ == cudaSuccess) static_cast<void>(cudaStreamDestroy(stream_));
  }
  OwnStream(const OwnStream&) = delete;
  OwnStream& operator=(const OwnStream&) = delete;

  Status copy(void* to, const void* from, std::size_t bytes) {
    FERRULE_CUDA(error_, "making a stream");
    FERRULE_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "starting a copy");
    return to_status(cudaStreamSynchronize(stream_), "copying between host and device");
  }
  Status zero(void* memory, std::size_t bytes) {
    FERRULE_CUDA(error_, "making a stream");
    FERRULE_CUDA(cudaMemsetAsync(memory, 0, bytes, stream_), "clearing memory");
    return to_status(cudaStreamSynchronize(stream_), "clearing memory");
  }

 private:
  cudaStream_t stream_ = nullptr;
  cudaError_t error_;
};

}  // namespace

Result<void*> DeviceSpace::allocate(std::size_t bytes) {
  const OnDevice here(device_);
  void* memory = nullptr;
  const cudaError_t error = cudaMalloc(&memory, bytes);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // else the caller's next check would find it
    return Status(ErrorCode::system, fmt::format("CUDA: could not allocate {} bytes on device {}: {}", bytes,
                                                 device_, cudaGetErrorString(error)));
  }
  const Status cleared = OwnStream().zero(memory, bytes);
  if (cleared.ok()) return memory;
  static_cast<void>(cudaFree(memory));
  return cleared;
}

void DeviceSpace::free(void* memory) {
  const OnDevice here(device_);
  static_cast<void>(cudaFree(memory));
}

Status DeviceSpace::settle() {
  const OnDevice here(device_);
  return to_status(cudaDeviceSynchronize(), "waiting for the device");
}

Status DeviceSpace::read(void* host, const void* memory, std::size_t bytes) const {
  const OnDevice here(device_);
  return OwnStream().copy(host, memory, bytes);
}

Status DeviceSpace::write(void* memory, const void* host, std::size_t bytes) const {
  const OnDevice here(device_);
  return OwnStream().copy(memory, host, bytes);
}

}  // namespace ferrule::cuda
