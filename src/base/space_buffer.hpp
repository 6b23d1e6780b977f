// A buffer in host memory or in that of a device.
#pragma once

#include <cstddef>
#include <utility>

#include "base/huge_buffer.hpp"
#include "base/memory_space.hpp"
#include "ferrule/status.hpp"

namespace ferrule {

/// Owns `bytes` of zeroed memory of `space` (null: the host). Movable, not copyable; empty after default
/// construction or a move.
class SpaceBuffer {
 public:
  SpaceBuffer() = default;
  SpaceBuffer(SpaceBuffer&& other) noexcept { *this = std::move(other); }
  SpaceBuffer& operator=(SpaceBuffer&& other) noexcept {
    std::swap(host_, other.host_);
    std::swap(space_, other.space_);
    std::swap(device_data_, other.device_data_);
    std::swap(device_bytes_, other.device_bytes_);
    return *this;
  }
  ~SpaceBuffer() {
    if (device_data_ != nullptr) space_->free(device_data_);
  }

  static Result<SpaceBuffer> allocate(std::size_t bytes, MemorySpace* space) {
    SpaceBuffer buffer;
    buffer.space_ = space;
    if (space == nullptr) {
      auto host = HugeBuffer::allocate(bytes);
      FERRULE_RETURN_IF_ERROR(host.status());
      buffer.host_ = std::move(host).value();
      return buffer;
    }
    if (bytes == 0) return buffer;
    auto memory = space->allocate(bytes);
    FERRULE_RETURN_IF_ERROR(memory.status());
    buffer.device_data_ = static_cast<std::byte*>(*memory);
    buffer.device_bytes_ = bytes;
    return buffer;
  }

  std::byte* data() const { return space_ == nullptr ? host_.data() : device_data_; }
  std::size_t bytes() const { return space_ == nullptr ? host_.bytes() : device_bytes_; }
  MemorySpace* space() const { return space_; }

 private:
  HugeBuffer host_;
  MemorySpace* space_ = nullptr;
  std::byte* device_data_ = nullptr;
  std::size_t device_bytes_ = 0;
};

}  // namespace ferrule
