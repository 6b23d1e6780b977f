#include "residual/residual.hpp"

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

Result<std::unique_ptr<Residual>> Residual::create(std::size_t count) {
  if (count > SIZE_MAX / sizeof(float)) {
    return Status(ErrorCode::invalid_argument, "a residual of more elements than memory can hold");
  }
  std::unique_ptr<Residual> residual(new Residual(count));
  auto buffer = HugeBuffer::allocate(count * sizeof(float));
  FERRULE_RETURN_IF_ERROR(buffer.status());
  residual->buffer_ = std::move(buffer).value();
  return residual;
}

Status Residual::try_use() {
  if (!in_use_.exchange(true, std::memory_order_acquire)) return {};
  return Status(ErrorCode::invalid_argument,
                "the residual is in use by another collective: give each collective under way its own");
}

void Residual::end_use() { in_use_.store(false, std::memory_order_release); }

Update::~Update() { roll_back(); }

Status Update::begin(Residual& residual, HugeBuffer& spare) {
  FERRULE_RETURN_IF_ERROR(residual.try_use());
  residual_ = &residual;
  spare_ = &spare;
  const std::size_t bytes = residual.count_ * sizeof(float);
  if (spare.bytes() >= bytes) {
    next_ = std::move(spare);
    return {};
  }
  auto fresh = HugeBuffer::allocate(bytes);
  if (!fresh.ok()) {
    end();
    return fresh.status();
  }
  next_ = std::move(fresh).value();
  return {};
}

void Update::commit() {
  if (!active()) return;
  const std::size_t bytes = residual_->count_ * sizeof(float);
  if (next_.bytes() > 2 * bytes) {
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
  if (next_.bytes() > spare_->bytes()) std::swap(*spare_, next_);
  next_ = HugeBuffer();
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
