#include "codec/elements.hpp"

#include <algorithm>
#include <cstdint>

#include "codec/format/float16.hpp"

namespace ferrule::codec {
namespace {

using format::bf16_to_f32;
using format::f16_to_f32;
using format::f32_to_bf16;
using format::f32_to_f16;

// The elements are only known to be aligned to the element.
template <float (*Convert)(std::uint16_t)>
void load_halves(const void* data, std::size_t first, std::size_t count, float* x) {
  const auto* halves = static_cast<const std::uint16_t*>(data) + first;
  for (std::size_t i = 0; i < count; ++i) x[i] = Convert(halves[i]);
}

template <std::uint16_t (*Convert)(float)>
void store_halves(const float* x, std::size_t first, std::size_t count, void* data) {
  auto* halves = static_cast<std::uint16_t*>(data) + first;
  for (std::size_t i = 0; i < count; ++i) halves[i] = Convert(x[i]);
}

float canonical(float value) { return value != value ? format::canonical_nan() : value; }

}  // namespace

void load_elements(const void* data, DType dtype, std::size_t first, std::size_t count, float* x) {
  if (dtype == DType::f16) return load_halves<f16_to_f32>(data, first, count, x);
  if (dtype == DType::bf16) return load_halves<bf16_to_f32>(data, first, count, x);
  std::copy_n(static_cast<const float*>(data) + first, count, x);  // count may be 0, and data null
}

void store_elements(const float* x, DType dtype, std::size_t first, std::size_t count, void* data) {
  if (dtype == DType::f16) return store_halves<f32_to_f16>(x, first, count, data);
  if (dtype == DType::bf16) return store_halves<f32_to_bf16>(x, first, count, data);
  std::transform(x, x + count, static_cast<float*>(data) + first, canonical);
}

void round_to_dtype(DType dtype, std::size_t count, float* x) {
  if (dtype == DType::f32) return;
  const bool is_f16 = dtype == DType::f16;
  for (std::size_t i = 0; i < count; ++i) {
    x[i] = is_f16 ? f16_to_f32(f32_to_f16(x[i])) : bf16_to_f32(f32_to_bf16(x[i]));
  }
}

}  // namespace ferrule::codec
