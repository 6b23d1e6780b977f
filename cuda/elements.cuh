// Plain elements in and out of fp32 values, four at a time: what codec/elements.hpp does for a whole array.
#pragma once

#include "codec/format/float16.hpp"
#include "cuda/warp_bytes.cuh"
#include "ferrule/types.hpp"

namespace ferrule::cuda {

namespace format = codec::format;

struct F32 {
  using Storage = std::uint32_t;
  FERRULE_DEVICE static float widen(std::uint32_t bits) { return format::float_of(bits); }
  FERRULE_DEVICE static std::uint32_t narrow(float value) {
    return value != value ? format::kCanonicalNanBits : format::bits_of(value);
  }
};
struct F16 {
  using Storage = std::uint16_t;
  FERRULE_DEVICE static float widen(std::uint16_t bits) { return format::f16_to_f32(bits); }
  FERRULE_DEVICE static std::uint16_t narrow(float value) { return format::f32_to_f16(value); }
};
struct Bf16 {
  using Storage = std::uint16_t;
  FERRULE_DEVICE static float widen(std::uint16_t bits) { return format::bf16_to_f32(bits); }
  FERRULE_DEVICE static std::uint16_t narrow(float value) { return format::f32_to_bf16(value); }
};

/// Whether four elements from a multiple of four on can be one access.
template <class Type>
FERRULE_DEVICE bool is_aligned(const void* data) {
  return reinterpret_cast<std::uintptr_t>(data) % (4 * sizeof(typename Type::Storage)) == 0;
}

/// Four elements, aligned.
template <class Type>
FERRULE_DEVICE void load4(const typename Type::Storage* at, float (&values)[4]) {
  if constexpr (sizeof(typename Type::Storage) == 4) {
    const uint4 word = *reinterpret_cast<const uint4*>(at);
    values[0] = Type::widen(word.x);
    values[1] = Type::widen(word.y);
    values[2] = Type::widen(word.z);
    values[3] = Type::widen(word.w);
  } else {
    const uint2 word = *reinterpret_cast<const uint2*>(at);
    values[0] = Type::widen(static_cast<std::uint16_t>(word.x));
    values[1] = Type::widen(static_cast<std::uint16_t>(word.x >> 16));
    values[2] = Type::widen(static_cast<std::uint16_t>(word.y));
    values[3] = Type::widen(static_cast<std::uint16_t>(word.y >> 16));
  }
}

template <class Type>
FERRULE_DEVICE void store4(typename Type::Storage* at, const float (&values)[4]) {
  if constexpr (sizeof(typename Type::Storage) == 4) {
    *reinterpret_cast<uint4*>(at) = make_uint4(Type::narrow(values[0]), Type::narrow(values[1]),
                                               Type::narrow(values[2]), Type::narrow(values[3]));
  } else {
    *reinterpret_cast<uint2*>(at) =
        make_uint2(Type::narrow(values[0]) | (std::uint32_t{Type::narrow(values[1])} << 16),
                   Type::narrow(values[2]) | (std::uint32_t{Type::narrow(values[3])} << 16));
  }
}

/// The first `count` (0 .. 4) of four elements, which are aligned to the element.
template <class Type>
FERRULE_DEVICE void load_some(const typename Type::Storage* at, unsigned count, float (&values)[4]) {
  FERRULE_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    if (k < count) values[k] = Type::widen(at[k]);
  }
}

template <class Type>
FERRULE_DEVICE void store_some(typename Type::Storage* at, unsigned count, const float (&values)[4]) {
  FERRULE_UNROLL
  for (unsigned k = 0; k < 4; ++k) {
    if (k < count) at[k] = Type::narrow(values[k]);
  }
}

/// What an element of this dtype keeps of a value.
FERRULE_DEVICE float rounded_to(DType dtype, float value) {
  if (dtype == DType::f16) return F16::widen(F16::narrow(value));
  if (dtype == DType::bf16) return Bf16::widen(Bf16::narrow(value));
  return value;
}

}  // namespace ferrule::cuda
