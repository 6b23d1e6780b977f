// Scratch memory that is touched once, when it is made: anonymous pages, huge ones where the system gives
// them. (First touch of small pages inside a collective costs more than the collective.)
#pragma once

#include <cstddef>
#include <utility>

#include "ferrule/status.hpp"

namespace ferrule {

/// Owns `bytes` of zeroed, 64-byte aligned memory. Movable, not copyable. Empty after default construction or
/// a move.
class HugeBuffer {
 public:
  HugeBuffer() = default;
  HugeBuffer(HugeBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  HugeBuffer& operator=(HugeBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~HugeBuffer();

  /// Allocates and touches every page. `bytes` may be 0.
  static Result<HugeBuffer> allocate(std::size_t bytes);

  std::byte* data() const { return data_; }
  std::size_t bytes() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace ferrule
