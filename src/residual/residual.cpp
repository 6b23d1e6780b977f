#include "residual/residual.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace ferrule::residual {
namespace {

// An element is not finite when all bits of its exponent are set.
template <class Bits>
void keep_where_exponent_full(const void* out, Bits exponent, std::size_t count, const float* before,
                              float* after) {
  const auto* bytes = static_cast<const std::byte*>(out);
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
    if ((bits & exponent) == exponent) after[i] = before[i];
  }
}

}  // namespace

Result<std::unique_ptr<Residual>> Residual::create(std::size_t count, MemorySpace* space) {
  if (count > SIZE_MAX / sizeof(float)) {
    return Status(ErrorCode::invalid_argument, "a residual of more elements than memory can hold");
  }
  std::unique_ptr<Residual> residual(new Residual(count));
  auto buffer = SpaceBuffer::allocate(count * sizeof(float), space);
  FERRULE_RETURN_IF_ERROR(buffer.status());
  residual->buffer_ = std::move(buffer).value();
  return residual;
}

Status Residual::read(std::span<float> out) const {
  if (space() == nullptr) {
    std::copy_n(values(), count_, out.data());
    return {};
  }
  FERRULE_RETURN_IF_ERROR(space()->settle());
  return space()->read(out.data(), values(), count_ * sizeof(float));
}

Status Residual::write(std::span<const float> in) {
  if (space() == nullptr) {
    std::copy_n(in.data(), count_, values());
    return {};
  }
  FERRULE_RETURN_IF_ERROR(space()->settle());
  return space()->write(values(), in.data(), count_ * sizeof(float));
}

Status Residual::zero() {
  if (space() != nullptr) return write(std::vector<float>(count_));
  std::fill_n(values(), count_, 0.0F);
  return {};
}

Status Residual::try_use() {
  if (!in_use_.exchange(true, std::memory_order_acquire)) return {};
  return Status(ErrorCode::invalid_argument,
                "the residual is in use by another collective: give each collective under way its own");
}

void Residual::end_use() { in_use_.store(false, std::memory_order_release); }

Result<SpaceBuffer> Spares::take(std::size_t bytes, MemorySpace* space) {
  if (space == nullptr) {
    if (host_.bytes() >= bytes) return std::move(host_);
    return SpaceBuffer::allocate(bytes, nullptr);
  }
  const auto fits = [&](const SpaceBuffer& buffer) {
    return buffer.space() == space && buffer.bytes() >= bytes && buffer.bytes() <= bytes + bytes / 2;
  };
  const auto found = std::find_if(device_.begin(), device_.end(), fits);
  if (found == device_.end()) return SpaceBuffer::allocate(bytes, space);
  std::swap(*found, device_.back());
  SpaceBuffer taken = std::move(device_.back());
  device_.pop_back();
  return taken;
}

void Spares::give(SpaceBuffer buffer) {
  if (buffer.space() != nullptr) return device_.push_back(std::move(buffer));
  if (buffer.bytes() > host_.bytes()) std::swap(host_, buffer);
}

Update::~Update() { roll_back(); }

Status Update::begin(Residual& residual, Spares& spares) {
  FERRULE_RETURN_IF_ERROR(residual.try_use());
  auto taken = spares.take(residual.count_ * sizeof(float), residual.space());
  if (!taken.ok()) {
    residual.end_use();
    return taken.status();
  }
  residual_ = &residual;
  spares_ = &spares;
  next_ = std::move(taken).value();
  return {};
}

void Update::commit() {
  if (!active()) return;
  const std::size_t bytes = residual_->count_ * sizeof(float);
  if (next_.space() == nullptr && next_.bytes() > 2 * bytes) {
    // A large spare must not settle in a small residual: copying little is cheaper than to allocate much
    // again.
    if (bytes != 0) std::memcpy(residual_->buffer_.data(), next_.data(), bytes);
  } else {
    std::swap(residual_->buffer_, next_);
  }
  end();
}

void Update::roll_back() {
  if (active()) end();
}

void Update::end() {
  spares_->give(std::exchange(next_, SpaceBuffer()));
  std::exchange(residual_, nullptr)->end_use();
}

void keep_where_not_finite(const void* out, DType dtype, std::size_t count, const float* before,
                           float* after) {
  switch (dtype) {
    case DType::f32:
      return keep_where_exponent_full<std::uint32_t>(out, 0x7f800000U, count, before, after);
    case DType::f16:
      return keep_where_exponent_full<std::uint16_t>(out, 0x7c00U, count, before, after);
    case DType::bf16:
      return keep_where_exponent_full<std::uint16_t>(out, 0x7f80U, count, before, after);
    default:
      return;  // no lossy codec takes the others
  }
}

}  // namespace ferrule::residual
