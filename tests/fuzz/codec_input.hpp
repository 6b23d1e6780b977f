// Codecs, elements and wire bytes made from a fuzzer's input.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "codec/codec.hpp"
#include "codec/elements.hpp"
#include "fuzz/input.hpp"
#include "fuzz/require.hpp"

namespace ferrule::fuzz {

/// Made once a text: the same codec serves all inputs.
inline const codec::Codec& codec_of(const std::string& text) {
  static auto* made = new std::map<std::string, std::unique_ptr<const codec::Codec>>;
  auto& codec = (*made)[text];
  if (codec == nullptr) {
    auto result = codec::make_codec(text);
    FERRULE_REQUIRE_OR(result.ok(), result.status().text());
    codec = std::move(*result);
  }
  return *codec;
}

/// Does the codec `name` take this parameter?
inline bool takes(const std::string& name, const char* parameter) {
  return codec::make_codec(name + ":" + parameter).ok();
}

/// Every registered codec with every parameter, by the registry: a new codec is fuzzed as soon as it is
/// there.
inline const std::vector<std::string>& all_codecs() {
  static const auto* specs = [] {
    auto* all = new std::vector<std::string>;
    for (const std::string& name : codec::codec_names()) {
      all->push_back(name);
      for (const char* block : {"block=32", "block=64", "block=96", "block=256", "block=1024"}) {
        if (takes(name, block)) all->push_back(name + ":" + block);
        const std::string stochastic = std::string(block) + ",round=stochastic";
        if (takes(name, stochastic.c_str())) all->push_back(name + ":" + stochastic);
      }
      for (const char* kept : {"k=1,block=4096", "k=40,block=256", "k=40,value=int8", "value=int8"}) {
        if (takes(name, kept)) all->push_back(name + ":" + kept);
      }
    }
    return all;
  }();
  return *specs;
}

inline const codec::Codec& any_codec(Input& input) {
  const auto& all = all_codecs();
  return codec_of(all[input.pick(static_cast<std::uint32_t>(all.size()))]);
}

/// One that the codec supports with this operation.
inline DType any_dtype(Input& input, const codec::Codec& codec, ReduceOp op) {
  const auto first = input.pick(kDTypeCount);
  for (std::uint32_t i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>((first + i) % kDTypeCount);
    if (codec.supports(dtype, op)) return dtype;
  }
  return DType::f32;
}

inline ReduceOp any_op(Input& input, const codec::Codec& codec) {
  const auto op = static_cast<ReduceOp>(input.pick(kReduceOpCount));
  return codec.supports(DType::f32, op) ? op : ReduceOp::sum;
}

/// 0, 1, odd ones, the neighbourhood of block edges, a few thousand at most.
inline std::size_t any_count(Input& input, std::size_t block) {
  const std::size_t blocks = input.pick(4);
  const std::size_t more = input.take<std::uint8_t>();
  switch (input.pick(3)) {
    case 0:
      return blocks * block + more % block;
    case 1:
      return blocks * block + (more % 3) == 0 ? 0 : blocks * block + more % 3 - 1;
    default:
      return more;
  }
}

/// `count` bytes: the next of the input, over and over, so that short inputs fill long buffers.
inline std::vector<std::byte> any_bytes(Input& input, std::size_t count) {
  std::vector<std::byte> bytes(count);
  const std::string_view some =
      input.text(std::min<std::size_t>(count, input.take<std::uint16_t>() % 512 + 1));
  for (std::size_t i = 0; i < count && !some.empty(); ++i)
    bytes[i] = static_cast<std::byte>(some[i % some.size()]);
  return bytes;
}

/// Elements of a float type: any bits, or numbers of about one size, which are the ones that codecs are made
/// for.
inline std::vector<std::byte> any_elements(Input& input, std::size_t count, DType dtype) {
  const std::uint8_t kind = input.take<std::uint8_t>();
  if (!is_compressible(dtype) || kind % 4 == 0) return any_bytes(input, count * element_bytes(dtype));
  const int exponent = kind % 4 == 1 ? static_cast<std::int8_t>(input.take<std::uint8_t>()) : 0;
  const std::vector<std::byte> raw = any_bytes(input, count);
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) {
    values[i] = std::ldexp(static_cast<float>(static_cast<std::int8_t>(raw[i])) / 64.0F, exponent);
  }
  std::vector<std::byte> elements(count * element_bytes(dtype));
  codec::store_elements(values.data(), dtype, 0, count, elements.data());
  return elements;
}

/// A copy whose first byte lies `offset` bytes into an allocation, and whose last one is the allocation's
/// last: AddressSanitizer sees every byte read or written beyond it.
class Placed {
 public:
  Placed(std::span<const std::byte> bytes, std::size_t offset)
      : offset_(offset), memory_(offset + bytes.size()) {
    std::copy(bytes.begin(), bytes.end(), memory_.begin() + static_cast<std::ptrdiff_t>(offset));
  }
  Placed(std::size_t bytes, std::size_t offset) : offset_(offset), memory_(offset + bytes, std::byte{0xa5}) {}

  std::byte* data() { return memory_.data() + offset_; }
  std::span<const std::byte> bytes() const { return std::span(memory_).subspan(offset_); }
  std::vector<std::byte> copy() const { return {bytes().begin(), bytes().end()}; }

 private:
  std::size_t offset_;
  std::vector<std::byte> memory_;
};

inline std::vector<float> as_floats(std::span<const std::byte> elements, DType dtype) {
  std::vector<float> values(elements.size() / element_bytes(dtype));
  // The elements of a span may lie anywhere; the loader wants them aligned.
  const std::vector<std::byte> aligned(elements.begin(), elements.end());
  codec::load_elements(aligned.data(), dtype, 0, values.size(), values.data());
  return values;
}

}  // namespace ferrule::fuzz
