// Memory that the host's processor cannot read: that of one device. Plain host memory has no MemorySpace:
// where one may be named, null is the host.
#pragma once

#include <cstddef>

#include "ferrule/status.hpp"

namespace ferrule {

/// One for each device, living as long as the process. Thread safe.
class MemorySpace {
 public:
  virtual ~MemorySpace() = default;

  /// The number of the device, as its runtime counts.
  virtual int device() const = 0;
  /// Zeroed. May wait for the device: not for the way of a gradient.
  virtual Result<void*> allocate(std::size_t bytes) = 0;
  virtual void free(void* memory) = 0;
  /// Returns when all work that the device has been given before is done. For checkpoints, not for the way of
  /// a gradient.
  virtual Status settle() = 0;
  /// Copies; returns when it is done. Ordered after nothing but what the host knows to be done.
  virtual Status read(void* host, const void* memory, std::size_t bytes) const = 0;
  virtual Status write(void* memory, const void* host, std::size_t bytes) const = 0;
};

}  // namespace ferrule
