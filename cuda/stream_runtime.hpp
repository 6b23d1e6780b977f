// The runtime's part of a StreamDevice: memory, marks, captures. Kernels are somebody else's.
//
// Compiled against CUDA's headers in the library, against the fake runtime's in tests.
#pragma once

#include "executor/stream_device.hpp"

namespace ferrule::cuda {

class StreamRuntime : public executor::StreamDevice {
 public:
  /// Of the device that is current when it is made.
  StreamRuntime();

  Result<bool> is_captured(void* stream) const override;
  Result<std::byte*> allocate(std::size_t bytes) override;
  void release(std::byte* memory) override;
  Result<std::shared_ptr<executor::StreamMark>> mark(void* stream) override;
  Status check_pointer(const void* pointer, const char* name) const override;
  Status copy(void* to, const void* from, std::size_t bytes, void* stream) override;
  Status clear(void* memory, std::size_t bytes, void* stream) override;

 private:
  int device_ = 0;
};

}  // namespace ferrule::cuda
