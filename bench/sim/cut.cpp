#include "bench/sim/cut.hpp"

#include <algorithm>

namespace ferrule::sim {
namespace {

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

}  // namespace

Cut::Cut(const Codecs& codecs, Tensor tensor, std::uint32_t chunks, std::size_t slice_bytes)
    : codecs_(&codecs),
      tensor_(tensor),
      chunks_(chunks),
      element_bytes_(ferrule::element_bytes(tensor.dtype)) {
  std::size_t block = 1;
  for (const LevelCodec& one : codecs) block = std::max(block, one.codec->block());
  const std::size_t chunk_blocks = divide_up(divide_up(tensor.count, block), chunks);
  chunk_elements_ = chunk_blocks * block;
  std::size_t block_bytes = 1;
  for (const LevelCodec& one : codecs) {
    block_bytes = std::max(block_bytes, one.codec->encoded_bytes(block, tensor.dtype));
  }
  const std::size_t most_blocks = std::max<std::size_t>(1, slice_bytes / block_bytes);
  slices_ = static_cast<std::uint32_t>(divide_up(chunk_blocks, most_blocks));
  slice_elements_ = slices_ == 0 ? 0 : divide_up(chunk_blocks, slices_) * block;
  for (const LevelCodec& one : codecs) {
    slice_wire_bytes_.push_back(static_cast<double>(one.codec->encoded_bytes(slice_elements_, tensor.dtype)));
  }
}

std::size_t Cut::elements(std::uint32_t chunk) const {
  const std::size_t begin = std::min(tensor_.count, chunk * chunk_elements_);
  return std::min(tensor_.count, begin + chunk_elements_) - begin;
}

std::size_t Cut::elements(std::uint32_t chunk, std::uint32_t slice) const {
  const std::size_t length = elements(chunk);
  const std::size_t begin = std::min(length, slice * slice_elements_);
  return std::min(length, begin + slice_elements_) - begin;
}

double Cut::wire_bytes(std::size_t elements, std::uint8_t level) const {
  const std::size_t index = index_of_level(*codecs_, level);
  if (elements == slice_elements_) return slice_wire_bytes_[index];
  return static_cast<double>((*codecs_)[index].codec->encoded_bytes(elements, tensor_.dtype));
}

}  // namespace ferrule::sim
