// Devices, versions and errors.
#include <cstdio>

#include "runtime.hpp"

using fake_cuda::keep;

extern "C" {

const char* cudaGetErrorName(cudaError_t error) {
#define FAKE_CUDA_NAME(name) \
  case name:                 \
    return #name;
  switch (error) {
    FAKE_CUDA_NAME(cudaSuccess)
    FAKE_CUDA_NAME(cudaErrorInvalidValue)
    FAKE_CUDA_NAME(cudaErrorMemoryAllocation)
    FAKE_CUDA_NAME(cudaErrorInitializationError)
    FAKE_CUDA_NAME(cudaErrorInvalidMemcpyDirection)
    FAKE_CUDA_NAME(cudaErrorInsufficientDriver)
    FAKE_CUDA_NAME(cudaErrorNoDevice)
    FAKE_CUDA_NAME(cudaErrorInvalidDevice)
    FAKE_CUDA_NAME(cudaErrorInvalidResourceHandle)
    FAKE_CUDA_NAME(cudaErrorNotReady)
    FAKE_CUDA_NAME(cudaErrorIllegalAddress)
    FAKE_CUDA_NAME(cudaErrorPeerAccessAlreadyEnabled)
    FAKE_CUDA_NAME(cudaErrorHostMemoryAlreadyRegistered)
    FAKE_CUDA_NAME(cudaErrorHostMemoryNotRegistered)
    FAKE_CUDA_NAME(cudaErrorLaunchFailure)
    FAKE_CUDA_NAME(cudaErrorNotPermitted)
    FAKE_CUDA_NAME(cudaErrorNotSupported)
    FAKE_CUDA_NAME(cudaErrorStreamCaptureUnsupported)
    FAKE_CUDA_NAME(cudaErrorStreamCaptureInvalidated)
    FAKE_CUDA_NAME(cudaErrorStreamCaptureMerge)
    FAKE_CUDA_NAME(cudaErrorStreamCaptureUnmatched)
    FAKE_CUDA_NAME(cudaErrorStreamCaptureUnjoined)
    FAKE_CUDA_NAME(cudaErrorStreamCaptureIsolation)
    FAKE_CUDA_NAME(cudaErrorStreamCaptureImplicit)
    FAKE_CUDA_NAME(cudaErrorCapturedEvent)
    FAKE_CUDA_NAME(cudaErrorStreamCaptureWrongThread)
    FAKE_CUDA_NAME(cudaErrorUnknown)
  }
#undef FAKE_CUDA_NAME
  return "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) { return cudaGetErrorName(error); }
cudaError_t cudaGetLastError() { return fake_cuda::take_last_error(true); }
cudaError_t cudaPeekAtLastError() { return fake_cuda::take_last_error(false); }

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = fake_cuda::machine().status == cudaErrorInsufficientDriver ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int* count) {
  *count = 0;
  FAKE_CUDA_ENTER();
  if (fake_cuda::machine().devices == 0) return keep(cudaErrorNoDevice);
  *count = fake_cuda::machine().devices;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* device) {
  FAKE_CUDA_ENTER();
  *device = fake_cuda::current_device();
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  FAKE_CUDA_ENTER();
  if (device < 0 || device >= fake_cuda::machine().devices) return keep(cudaErrorInvalidDevice);
  fake_cuda::current_device() = device;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  FAKE_CUDA_ENTER();
  if (device < 0 || device >= fake_cuda::machine().devices) return keep(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 2;  // few: grids that assume many blocks at once are found out
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = 0;
      return cudaSuccess;
    case cudaDevAttrMemoryPoolsSupported:
      *value = fake_cuda::machine().memory_pools;
      return cudaSuccess;
  }
  return keep(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int bytes, int device) {
  FAKE_CUDA_ENTER();
  if (device < 0 || device >= fake_cuda::machine().devices || bytes < 13) return keep(cudaErrorInvalidValue);
  std::snprintf(text, static_cast<std::size_t>(bytes), "0000:%02x:00.0", device + 1);
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  FAKE_CUDA_ENTER();
  const int devices = fake_cuda::machine().devices;
  if (device < 0 || device >= devices || peer < 0 || peer >= devices) return keep(cudaErrorInvalidDevice);
  *can = device != peer ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  FAKE_CUDA_ENTER();
  const bool valid = flags == 0 && peer >= 0 && peer < fake_cuda::machine().devices;
  return keep(valid && peer != fake_cuda::current_device() ? cudaSuccess : cudaErrorInvalidDevice);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  FAKE_CUDA_ENTER();
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  FAKE_CUDA_ENTER();
  if (const cudaError_t refused = fake_cuda::refuse_while_capturing()) return keep(refused);
  fake_cuda::count_host_sync();
  fake_cuda::drain_all("cudaDeviceSynchronize");
  return keep(fake_cuda::enter("cudaDeviceSynchronize: what ran before"));
}

cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  FAKE_CUDA_ENTER();
  *free_bytes = *total_bytes = size_t{4} << 30;
  return cudaSuccess;
}
}
