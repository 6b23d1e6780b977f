// A contiguous tensor in memory of the caller's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "ferrule/types.hpp"

namespace ferrule {

/// The numbers are those of ferruleMemory_t.
enum class Memory : std::int32_t { host = 0, device = 1 };

/// Does not own. `data` is aligned to the element, and may be null when count is 0.
struct TensorView {
  void* data = nullptr;
  std::size_t count = 0;  ///< elements
  DType dtype = DType::f32;
  Memory memory = Memory::host;

  TensorView() = default;
  TensorView(void* elements, std::size_t element_count, DType type)
      : data(elements), count(element_count), dtype(type) {}
  TensorView(float* elements, std::size_t element_count) : TensorView(elements, element_count, DType::f32) {}
  TensorView(double* elements, std::size_t element_count) : TensorView(elements, element_count, DType::f64) {}
  TensorView(std::int32_t* elements, std::size_t element_count)
      : TensorView(elements, element_count, DType::i32) {}
  TensorView(std::int64_t* elements, std::size_t element_count)
      : TensorView(elements, element_count, DType::i64) {}
  TensorView(std::uint8_t* elements, std::size_t element_count)
      : TensorView(elements, element_count, DType::u8) {}

  /// The same, of elements in the memory of a CUDA device.
  TensorView on_device() const {
    TensorView view = *this;
    view.memory = Memory::device;
    return view;
  }
  std::size_t bytes() const { return count * element_bytes(dtype); }
};

}  // namespace ferrule
