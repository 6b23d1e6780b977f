// Residuals: what lossy encodes have left behind, one fp32 an element, in units of the sum.
//
// A collective never writes into the residual that it reads. It writes the new values into a spare buffer and
// swaps the two when it has succeeded: so a failed collective commits nothing, at no cost. The buffer that
// falls free serves the next collective, so that many residuals (one a bucket) need one spare between them,
// not one each.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/space_buffer.hpp"
#include "ferrule/status.hpp"
#include "ferrule/types.hpp"

namespace ferrule::residual {

/// Which communicator used a residual last: see communicator::Descent.
struct LastUse {
  std::uint64_t lineage = 0;
  std::uint32_t generation = 0;
};

/// Values start at zero. One collective at a time may use it: see Update.
class Residual {
 public:
  /// `space`: for tensors in memory of that device; null: in the host's.
  static Result<std::unique_ptr<Residual>> create(std::size_t count, MemorySpace* space = nullptr);

  std::size_t count() const { return count_; }
  MemorySpace* space() const { return buffer_.space(); }
  /// Valid until the next collective that uses this residual. Memory of space().
  float* values() const { return reinterpret_cast<float*>(buffer_.data()); }

  // Of values between collectives, wherever they are; on a device they wait for all of its work.
  Status read(std::span<float> out) const;
  Status write(std::span<const float> in);
  Status zero();

  /// For one user at a time; `invalid_argument` while there is another. Ended by end_use().
  Status try_use();
  void end_use();
  /// By its user: notes the use, and returns the one before.
  LastUse note_use(LastUse use) { return std::exchange(last_use_, use); }

 private:
  friend class Update;
  explicit Residual(std::size_t count) : count_(count) {}

  std::size_t count_;
  SpaceBuffer buffer_;
  LastUse last_use_;
  std::atomic<bool> in_use_{false};
};

/// Buffers that lie fallow between collectives: the largest of the host's; of a device's all, since there
/// both allocating and freeing may wait for the device.
class Spares {
 public:
  /// The buffer may be larger than `bytes`; one of a device's by at most half of it.
  Result<SpaceBuffer> take(std::size_t bytes, MemorySpace* space);
  void give(SpaceBuffer buffer);

 private:
  SpaceBuffer host_;
  std::vector<SpaceBuffer> device_;
};

/// One collective's hold on a residual. Not committed when destroyed: rolled back.
class Update {
 public:
  Update() = default;
  Update(const Update&) = delete;
  Update& operator=(const Update&) = delete;
  ~Update();

  /// Takes hold of `residual`, which must live until the end of the update. `spares` may lend a buffer, and
  /// get back the one that falls free; they must outlive the update. Errors: in use by another collective; no
  /// memory.
  Status begin(Residual& residual, Spares& spares);
  bool active() const { return residual_ != nullptr; }
  /// Values before, and where all of the values after must be written. Null when not active.
  const float* before() const { return active() ? residual_->values() : nullptr; }
  float* after() const { return active() ? reinterpret_cast<float*>(next_.data()) : nullptr; }
  void commit();
  void roll_back();

 private:
  void end();

  Residual* residual_ = nullptr;
  Spares* spares_ = nullptr;
  SpaceBuffer next_;
};

/// Where an output is not finite, nothing was delivered: the residual stays as it was. `out`, `before` and
/// `after` point at the same `count` elements.
void keep_where_not_finite(const void* out, DType dtype, std::size_t count, const float* before,
                           float* after);

}  // namespace ferrule::residual
