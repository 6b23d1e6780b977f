// The seam between the block driver and faster implementations of a format.
//
// The driver (block_codec.cpp) walks a call in tiles of whole blocks and reaches a format only through
// BlockKernels; scalar_kernels<Format>() makes them from the format's header. Faster code comes in at two
// depths, and must give the same bytes, residuals and elements, bit for bit:
//   * whole calls: Accelerator::encode / decode do the first whole blocks of a call, all or none of them, and
//     leave the rest (a last block that is not full) to the driver,
//   * tiles: Accelerator::tiles replaces the scalar kernels; terms, dtypes and residuals stay the driver's.
// A codec asks for its accelerator once, when it is made.
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/codec.hpp"
#include "codec/format/scaled_block.hpp"

namespace ferrule::codec {

enum class FormatKind : std::uint8_t {
  block_int,  ///< format::BlockInt<bits>
  bf16,       ///< format::Bf16Cast
  fp16,       ///< format::Fp16Cast
  topk,       ///< format::BlockTopK of the element of `bits`
  other,      ///< has no accelerator
};

/// A format with its parameters.
struct BlockShape {
  FormatKind kind = FormatKind::other;
  unsigned bits = 0;  ///< of a code
  std::size_t block = 128;
  bool stochastic = false;
  std::size_t kept = 0;  ///< topk: elements that a full block sends
};

/// Elements that the driver works on at once, at most.
inline constexpr std::size_t kLargestTile = 4096;

/// A tile: `count` elements from a block's edge on; whole blocks, but for the last of a call.
/// count <= kLargestTile.
struct Tile {
  std::size_t count = 0;
  std::uint64_t first_element = 0;  ///< in the tensor, for the noise
  std::uint64_t noise_key = 0;
  float divisor = 1;  ///< decode: see format::BlockAt
};

/// The encoded bytes of a tile: one header per block, and the payloads of the blocks, contiguous.
template <class Byte>
struct Sections {
  Byte* headers = nullptr;
  Byte* payloads = nullptr;
};

struct BlockKernels {
  std::size_t header_bytes = 0;  ///< per block
  /// Of a block of `count` elements.
  std::size_t (*payload_bytes)(const BlockShape&, std::size_t count) = nullptr;
  void (*encode)(const BlockShape&, const Tile&, const float* x, Sections<std::byte> out) = nullptr;
  /// Returns whether all values were finite.
  bool (*decode)(const BlockShape&, const Tile&, Sections<const std::byte> in, float* out) = nullptr;
  /// Adds to x instead: sparse formats, else null. Elements that were not sent stay as they are.
  bool (*add)(const BlockShape&, const Tile&, Sections<const std::byte> in, float* x) = nullptr;
};

/// The result is the memory of the first term, and all others are encoded: a sparse codec then touches
/// nothing but what was sent. (Elsewhere stored NaNs are made canonical; here those of elements that no peer
/// sent stay.)
inline bool adds_in_place(const DecodeArgs& args) {
  const Term& first = args.terms.front();
  const bool divides = args.finish && args.op == ReduceOp::avg && args.world > 1;
  if (args.dtype != DType::f32 || divides || first.kind != Term::Kind::plain || first.data != args.out) {
    return false;
  }
  for (const Term& term : args.terms.subspan(1)) {
    if (term.kind != Term::Kind::encoded) return false;
  }
  return true;
}

/// The first `count` elements of a call are done; `finite` is Codec::decode's result for them.
struct Decoded {
  std::size_t count = 0;
  bool finite = true;
};

struct Accelerator {
  /// Does the first elements of the call, a whole number of blocks, and returns how many; 0: declined. May be
  /// null.
  std::size_t (*encode)(const BlockShape&, const EncodeArgs&) = nullptr;
  /// The same. May be null.
  Decoded (*decode)(const BlockShape&, const DecodeArgs&) = nullptr;
  /// Replace the scalar encode and decode of tiles. Each may be null.
  BlockKernels tiles;
};

/// What there is for this format on this machine, or null: scalar. Lives for ever. (Defined in simd/, or in
/// simd_none.cpp in a build without it.)
const Accelerator* find_accelerator(const BlockShape& shape);

namespace detail {

template <class Format>
format::BlockAt block_at(const BlockShape& shape, const Tile& tile, std::size_t first) {
  format::BlockAt at;
  const std::size_t left = tile.count - first;
  at.count = left < shape.block ? left : shape.block;
  at.block = shape.block;
  at.divisor = tile.divisor;
  at.kept = shape.kept;
  at.stochastic = shape.stochastic;
  at.first_element = tile.first_element + first;
  if (shape.stochastic) at.noise = format::NoiseStream::at(tile.noise_key, at.first_element);
  return at;
}

template <class Format>
std::size_t payload_bytes(const BlockShape& shape, std::size_t count) {
  if constexpr (requires { Format::payload_bytes(count, count, count); }) {
    return Format::payload_bytes(count, shape.block, shape.kept);
  } else {
    return Format::payload_bytes(count, shape.block);
  }
}

template <class Format>
void encode_tile(const BlockShape& shape, const Tile& tile, const float* x, Sections<std::byte> out) {
  for (std::size_t first = 0; first < tile.count; first += shape.block) {
    const format::BlockAt at = block_at<Format>(shape, tile, first);
    Format::encode(x + first, at, out.headers, out.payloads);
    out.headers += Format::kHeaderBytes;
    out.payloads += payload_bytes<Format>(shape, at.count);
  }
}

template <bool (*Operation)(const std::byte*, const std::byte*, const format::BlockAt&, float*), class Format>
bool decode_tile(const BlockShape& shape, const Tile& tile, Sections<const std::byte> in, float* out) {
  bool finite = true;
  for (std::size_t first = 0; first < tile.count; first += shape.block) {
    const format::BlockAt at = block_at<Format>(shape, tile, first);
    finite &= Operation(in.headers, in.payloads, at, out + first);
    in.headers += Format::kHeaderBytes;
    in.payloads += payload_bytes<Format>(shape, at.count);
  }
  return finite;
}

}  // namespace detail

/// The kernels of a block format (see format/scaled_block.hpp for what that is).
template <class Format>
BlockKernels scalar_kernels() {
  BlockKernels kernels{Format::kHeaderBytes, &detail::payload_bytes<Format>, &detail::encode_tile<Format>,
                       &detail::decode_tile<&Format::decode, Format>};
  if constexpr (requires { &Format::add; }) kernels.add = &detail::decode_tile<&Format::add, Format>;
  return kernels;
}

}  // namespace ferrule::codec
