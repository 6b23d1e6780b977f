// How a tensor is cut into chunks and slices, and what they weigh on the wire: the arithmetic of plan::Plan
// without its program, whose cost grows with the square of the world.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "bench/sim/codecs.hpp"
#include "ferrule/types.hpp"

namespace ferrule::sim {

class Cut {
 public:
  struct Tensor {
    std::size_t count = 0;
    DType dtype = DType::f32;
  };

  /// The codecs must outlive the cut; the largest block and the largest code count. `chunks` >= 1.
  Cut(const Codecs& codecs, Tensor tensor, std::uint32_t chunks, std::size_t slice_bytes);

  std::uint32_t chunks() const { return chunks_; }
  std::uint32_t slices() const { return slices_; }
  /// The last slice in units of the others is what is left: 3.25 slices are three and a quarter.
  double full_slices() const {
    return slices_ == 0 ? 0 : static_cast<double>(chunk_elements_) / static_cast<double>(slice_elements_);
  }
  std::size_t count() const { return tensor_.count; }
  /// Elements of a chunk, 0 where the tensor has ended before it.
  std::size_t elements(std::uint32_t chunk) const;
  /// Elements of a chunk in a slice.
  std::size_t elements(std::uint32_t chunk, std::uint32_t slice) const;
  /// What the tensor would have if all chunks were as large as the first one.
  std::size_t even_count() const { return chunk_elements_ * chunks_; }

  /// Uncompressed and encoded bytes.
  double raw_bytes(std::size_t elements) const { return static_cast<double>(elements * element_bytes_); }
  double wire_bytes(std::size_t elements, std::uint8_t level) const;

 private:
  const Codecs* codecs_;
  Tensor tensor_;
  std::uint32_t chunks_;
  std::size_t element_bytes_;
  std::size_t chunk_elements_ = 0;
  std::size_t slice_elements_ = 0;
  std::uint32_t slices_ = 0;
  std::vector<double> slice_wire_bytes_;  // of slice_elements_, nearly always what is asked for; by codec
};

}  // namespace ferrule::sim
