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
#include <utility>

#include "base/huge_buffer.hpp"
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
  static Result<std::unique_ptr<Residual>> create(std::size_t count);

  std::size_t count() const { return count_; }
  /// Valid until the next collective that uses this residual.
  float* values() const { return reinterpret_cast<float*>(buffer_.data()); }

  /// For one user at a time; `invalid_argument` while there is another. Ended by end_use().
  Status try_use();
  void end_use();
  /// By its user: notes the use, and returns the one before.
  LastUse note_use(LastUse use) { return std::exchange(last_use_, use); }

 private:
  friend class Update;
  explicit Residual(std::size_t count) : count_(count) {}

  std::size_t count_;
  HugeBuffer buffer_;
  LastUse last_use_;
  std::atomic<bool> in_use_{false};
};

/// One collective's hold on a residual. Not committed when destroyed: rolled back.
class Update {
 public:
  Update() = default;
  Update(const Update&) = delete;
  Update& operator=(const Update&) = delete;
  ~Update();

  /// Takes hold of `residual`, which must live until the end of the update. `spare` may lend its buffer, and
  /// gets back the one that falls free; it must outlive the update. Errors: in use by another collective; no
  /// memory.
  Status begin(Residual& residual, HugeBuffer& spare);
  bool active() const { return residual_ != nullptr; }
  /// Values before, and where all of the values after must be written. Null when not active.
  const float* before() const { return active() ? residual_->values() : nullptr; }
  float* after() const { return active() ? reinterpret_cast<float*>(next_.data()) : nullptr; }
  void commit();
  void roll_back();

 private:
  void end();

  Residual* residual_ = nullptr;
  HugeBuffer* spare_ = nullptr;
  HugeBuffer next_;
};

/// Where an output is not finite, nothing was delivered: the residual stays as it was. `out`, `before` and
/// `after` point at the same `count` elements.
void keep_where_not_finite(const void* out, DType dtype, std::size_t count, const float* before,
                           float* after);

}  // namespace ferrule::residual
