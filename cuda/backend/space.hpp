// The memory of one CUDA device.
#pragma once

#include "base/memory_space.hpp"

namespace ferrule::cuda {

class DeviceSpace final : public MemorySpace {
 public:
  explicit DeviceSpace(int device) : device_(device) {}

  int device() const override { return device_; }
  Result<void*> allocate(std::size_t bytes) override;
  void free(void* memory) override;
  Status settle() override;
  Status read(void* host, const void* memory, std::size_t bytes) const override;
  Status write(void* memory, const void* host, std::size_t bytes) const override;

 private:
  const int device_;
};

}  // namespace ferrule::cuda
