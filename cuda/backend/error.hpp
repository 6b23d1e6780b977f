// CUDA's error codes as Status, and the device that a thread works on.
#pragma once

#include <cuda_runtime_api.h>

#include <string>

#include "ferrule/status.hpp"

namespace ferrule::cuda {

/// `doing` completes "CUDA: ... failed". Codes of work submitted earlier come out of any later call; the text
/// can only name the call that they came out of.
inline Status to_status(cudaError_t error, const char* doing) {
  if (error == cudaSuccess) return {};
  const auto code = error == cudaErrorStreamCaptureUnsupported ? ErrorCode::unsupported : ErrorCode::system;
  return Status(code, std::string("CUDA: ") + doing + " failed: " + cudaGetErrorString(error) + " (" +
                          cudaGetErrorName(error) + ")");
}

/// Makes `device` the thread's current one while it lives. Costs some ten nanoseconds where it is already.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    if (cudaGetDevice(&before_) != cudaSuccess || before_ == device) before_ = -1;
    if (before_ >= 0) static_cast<void>(cudaSetDevice(device));  // what follows fails if it cannot be had
  }
  ~OnDevice() {
    if (before_ >= 0) static_cast<void>(cudaSetDevice(before_));
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int before_ = -1;
};

}  // namespace ferrule::cuda

/// Returns from the enclosing function if the call fails.
#define FERRULE_CUDA(call, doing) FERRULE_RETURN_IF_ERROR(::ferrule::cuda::to_status(call, doing))
