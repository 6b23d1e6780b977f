// The memory of a backend: scratch slots, and for bytes on their way between the wire and the device a slot
// on each side.
#pragma once

#include <cstddef>
#include <vector>

#include "executor/backend.hpp"
#include "ferrule/status.hpp"

namespace ferrule::cuda {

/// Grows, never shrinks: freeing makes CUDA wait for the whole device, the caller's streams too. What was
/// outgrown is freed at the end. Each area at least doubles, so that all of them together are less than twice
/// the last.
class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;
  /// Waits for the device.
  ~Staging();

  Status reserve(const executor::Demand& demand);
  const executor::Demand& demand() const { return demand_; }
  std::byte* scratch() const { return scratch_.data; }
  std::byte* flags() const { return flags_.data; }
  std::byte* received_on_host(const executor::SlotAt& at) const {
    return slot(received_host_, at, received());
  }
  std::byte* received_on_device(const executor::SlotAt& at) const {
    return slot(received_device_, at, received());
  }
  std::byte* published(const executor::SlotAt& at) const {
    return slot(published_, at, demand_.published_slots);
  }
  std::size_t bytes() const { return bytes_; }
  /// Its work may never end: the memory stays for good.
  void abandon() { all_.clear(); }

  /// Words that say whether a decode has met something that is not finite.
  static constexpr std::size_t kFlags = 4096;

 private:
  struct Area {
    std::byte* data = nullptr;
    std::size_t bytes = 0;
    bool on_host = false;
  };

  Status grow(Area& area, std::size_t bytes, bool on_host);
  std::size_t received() const { return demand_.received_slots; }
  std::size_t stride() const;
  std::byte* slot(const Area& area, const executor::SlotAt& at, std::size_t slots) const {
    return area.data + (at.place * slots + at.slot) * stride();
  }

  executor::Demand demand_;
  Area scratch_;
  Area flags_;
  Area received_host_;
  Area received_device_;
  Area published_;
  std::vector<Area> all_;
  std::size_t bytes_ = 0;
};

}  // namespace ferrule::cuda
