// Memory and copies.
#include <cstring>
#include <utility>
#include <vector>

#include "memory.hpp"
#include "runtime.hpp"

using fake_cuda::Allocation;
using fake_cuda::keep;
using fake_cuda::Operation;

namespace {

bool is_inside(const Allocation& allocation, const void* pointer, size_t bytes) {
  return static_cast<const std::byte*>(pointer) + bytes <= allocation.begin + allocation.bytes;
}

// What CUDA makes of one end of a copy: an error, or whether it is on the device and whether it is pageable.
struct End {
  cudaError_t error = cudaSuccess;
  bool on_device = false;
  bool pageable = false;
};

End examine(const void* pointer, size_t bytes, bool must_be_device, bool must_be_host) {
  const Allocation found = fake_cuda::find_allocation(pointer);
  if (found.bytes != 0 && !is_inside(found, pointer, bytes)) return {cudaErrorInvalidValue, false, false};
  const bool on_device = found.type == cudaMemoryTypeDevice;
  if (must_be_device && found.type != cudaMemoryTypeDevice && found.type != cudaMemoryTypeManaged) {
    return {cudaErrorInvalidValue, false, false};
  }
  if (must_be_host && on_device) return {cudaErrorInvalidValue, false, false};
  return {cudaSuccess, on_device, found.type == cudaMemoryTypeUnregistered};
}

struct Copy {
  void* to;
  const void* from;
  size_t bytes;
  cudaMemcpyKind kind;
};

cudaError_t copy_in_stream(const Copy& copy, cudaStream_t stream, bool blocking, const char* caller) {
  const int kind = copy.kind;
  if (kind < 0 || kind > cudaMemcpyDefault) return cudaErrorInvalidMemcpyDirection;
  const bool known = copy.kind != cudaMemcpyDefault;
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  if (copy.bytes == 0) return cudaSuccess;
  const End to = examine(copy.to, copy.bytes, known && to_device, known && !to_device);
  const End from = examine(copy.from, copy.bytes, known && from_device, known && !from_device);
  if (to.error != cudaSuccess) return to.error;
  if (from.error != cudaSuccess) return from.error;
  cudaStream_t resolved = fake_cuda::resolve(stream);
  if (resolved == nullptr) return cudaErrorInvalidResourceHandle;
  const bool captured = fake_cuda::is_capturing(*resolved);
  Operation operation{Operation::Kind::copy, "copy", {}, nullptr};
  if (from.pageable && !captured && !blocking) {
    // CUDA has read pageable memory when it returns.
    const auto* bytes = static_cast<const std::byte*>(copy.from);
    auto staged = std::make_shared<std::vector<std::byte>>(bytes, bytes + copy.bytes);
    operation.run = [copy, staged] { std::memcpy(copy.to, staged->data(), copy.bytes); };
  } else {
    operation.run = [copy] { std::memmove(copy.to, copy.from, copy.bytes); };
  }
  const cudaError_t error = fake_cuda::submit(stream, std::move(operation));
  if (error != cudaSuccess) return error;
  // Into pageable memory the host waits, whatever the name says.
  if (!blocking && (!to.pageable || captured)) return cudaSuccess;
  fake_cuda::count_host_sync();
  resolved->stream->mark()->wait_on_host(caller);
  return fake_cuda::enter("what ran before");
}

cudaError_t give(void** pointer, void* memory) {
  if (memory == nullptr) return cudaErrorMemoryAllocation;
  *pointer = memory;
  fake_cuda::count_allocation();
  return cudaSuccess;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  return keep(give(pointer, fake_cuda::allocate_device(bytes, fake_cuda::current_device())));
}

cudaError_t cudaMallocManaged(void** pointer, size_t bytes, unsigned flags) {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  if (flags != cudaMemAttachGlobal || bytes == 0) return keep(cudaErrorInvalidValue);
  return keep(
      give(pointer, fake_cuda::allocate_host(bytes, cudaMemoryTypeManaged, fake_cuda::current_device())));
}

cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream) {
  FAKE_CUDA_ENTER();
  if (fake_cuda::machine().memory_pools == 0) return keep(cudaErrorNotSupported);
  void* memory = fake_cuda::allocate_device(bytes, fake_cuda::current_device());
  if (memory == nullptr) return keep(cudaErrorMemoryAllocation);
  *pointer = memory;
  return keep(fake_cuda::submit(stream, {Operation::Kind::memory, "cudaMallocAsync",
                                         [=] { fake_cuda::poison(memory, bytes); }, nullptr}));
}

cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  FAKE_CUDA_ENTER();
  if (pointer == nullptr) return cudaSuccess;
  const Allocation found = fake_cuda::find_allocation(pointer);
  cudaStream_t resolved = fake_cuda::resolve(stream);
  if (resolved == nullptr) return keep(cudaErrorInvalidResourceHandle);
  if (found.type != cudaMemoryTypeDevice || found.begin != pointer) return keep(cudaErrorInvalidValue);
  const size_t bytes = found.bytes;
  const cudaError_t error = fake_cuda::submit(stream, {Operation::Kind::memory, "cudaFreeAsync",
                                                       [=] { fake_cuda::poison(pointer, bytes); }, nullptr});
  // Memory of a graph stays its own: a replay uses it again.
  if (error != cudaSuccess || fake_cuda::is_capturing(*resolved)) return keep(error);
  fake_cuda::free_later(pointer, resolved->stream->mark());
  return cudaSuccess;
}

cudaError_t cudaHostAlloc(void** pointer, size_t bytes, unsigned /*flags*/) {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  return keep(
      give(pointer, fake_cuda::allocate_host(bytes, cudaMemoryTypeHost, fake_cuda::current_device())));
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  FAKE_CUDA_ENTER();
  return cudaHostAlloc(pointer, bytes, cudaHostAllocDefault);
}

cudaError_t cudaHostRegister(void* pointer, size_t bytes, unsigned /*flags*/) {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  if (pointer == nullptr || bytes == 0) return keep(cudaErrorInvalidValue);
  const bool done = fake_cuda::register_host(pointer, bytes);
  return keep(done ? cudaSuccess : cudaErrorHostMemoryAlreadyRegistered);
}

cudaError_t cudaHostUnregister(void* pointer) {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  const bool done = fake_cuda::free_memory(pointer, cudaMemoryTypeHost, true);
  return keep(done ? cudaSuccess : cudaErrorHostMemoryNotRegistered);
}

cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host_pointer, unsigned flags) {
  FAKE_CUDA_ENTER();
  const bool pinned = fake_cuda::find_allocation(host_pointer).type == cudaMemoryTypeHost;
  if (flags != 0 || !pinned) return keep(cudaErrorInvalidValue);
  *device_pointer = host_pointer;
  return cudaSuccess;
}

cudaError_t cudaFree(void* pointer) {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  if (pointer == nullptr) return cudaSuccess;
  fake_cuda::count_host_sync();
  fake_cuda::drain_all("cudaFree");
  return keep(fake_cuda::free_memory(pointer, cudaMemoryTypeDevice) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaFreeHost(void* pointer) {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  if (pointer == nullptr) return cudaSuccess;
  fake_cuda::count_host_sync();
  fake_cuda::drain_all("cudaFreeHost");
  return keep(fake_cuda::free_memory(pointer, cudaMemoryTypeHost) ? cudaSuccess : cudaErrorInvalidValue);
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  FAKE_CUDA_ENTER();
  const Allocation found = fake_cuda::find_allocation(pointer);
  void* address = const_cast<void*>(pointer);
  const bool known = found.type != cudaMemoryTypeUnregistered;
  attributes->type = found.type;
  attributes->device = known ? found.device : -2;
  attributes->devicePointer = known ? address : nullptr;
  attributes->hostPointer = found.type == cudaMemoryTypeDevice ? nullptr : address;
  return cudaSuccess;
}

cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  return keep(copy_in_stream({to, from, bytes, kind}, nullptr, true, "cudaMemcpy"));
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  FAKE_CUDA_ENTER();
  return keep(copy_in_stream({to, from, bytes, kind}, stream, false, "cudaMemcpyAsync into pageable memory"));
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  FAKE_CUDA_ENTER();
  if (bytes == 0) return cudaSuccess;
  const Allocation found = fake_cuda::find_allocation(to);
  const bool known = found.type != cudaMemoryTypeUnregistered && is_inside(found, to, bytes);
  if (!known) return keep(cudaErrorInvalidValue);
  return keep(fake_cuda::submit(
      stream, {Operation::Kind::copy, "memset", [=] { std::memset(to, value, bytes); }, nullptr}));
}

cudaError_t cudaMemset(void* to, int value, size_t bytes) {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  return cudaMemsetAsync(to, value, bytes, nullptr);
}
}
