// The driver of all block codecs: terms, dtypes, error feedback and the order of additions, once for every
// format. A new codec is a block format (format/scaled_block.hpp says what that is), a family that reads its
// parameters, and one word in CMakeLists.txt:
//
//   Result<std::unique_ptr<const Codec>> make(const CodecSpec& spec) {
//     ... read parameters ...
//     return make_block_codec<MyFormat>({.shape = {...}, .spec = "...", .bound = ...});
//   }
//   CodecFamily my_family() { return {{"my"}, make}; }
//
// A call runs in tiles of at most kLargestTile elements, whole blocks each: all terms are added into
// fp32 values on the stack, in the order of the terms, then encoded or stored. Nothing is allocated. Vector
// code takes over tiles or whole calls through kernels.hpp.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "codec/codec.hpp"
#include "codec/kernels.hpp"

namespace ferrule::codec {

/// error of one encode <= relative * (largest magnitude of the block) + absolute
struct ErrorBound {
  double relative = 0;
  double absolute = 0;
};

struct BlockCodecInfo {
  BlockShape shape;
  std::string spec;  ///< canonical text
  ErrorBound bound;
};

class BlockCodec final : public Codec {
 public:
  BlockCodec(BlockCodecInfo info, const BlockKernels& scalar);

  const std::string& spec() const override { return info_.spec; }
  std::size_t block() const override { return info_.shape.block; }
  bool exact() const override { return false; }
  bool identity() const override { return false; }
  bool supports(DType dtype, ReduceOp op) const override {
    return is_compressible(dtype) && (op == ReduceOp::sum || op == ReduceOp::avg);
  }
  std::size_t encoded_bytes(std::size_t count, DType dtype) const override;
  void encode(const EncodeArgs& args) const override;
  bool decode(const DecodeArgs& args) const override;
  double relative_bound() const override { return info_.bound.relative; }
  double absolute_bound() const override { return info_.bound.absolute; }

 private:
  struct Piece;  // the elements of one tile within a call

  template <class Byte>
  Sections<Byte> sections_of(Byte* encoded, const Piece& piece) const;
  /// x = the sum of the terms; returns whether the encoded ones were finite. `divisor` applies to encoded
  /// terms.
  bool gather(std::span<const Term> terms, DType dtype, const Piece& piece, float divisor, float* x) const;
  bool read_term(const Term& term, DType dtype, const Piece& piece, float divisor, float* x) const;
  bool add_term(const Term& term, DType dtype, const Piece& piece, float divisor, float* x) const;
  void encode_piece(const EncodeArgs& args, const Piece& piece) const;
  /// What every rank will hold of what was just encoded, in units of the sum.
  void read_back(const EncodeArgs& args, const Piece& piece, float* delivered) const;
  bool decode_piece(const DecodeArgs& args, const Piece& piece) const;
  bool add_piece(const DecodeArgs& args, const Piece& piece) const;

  BlockCodecInfo info_;
  BlockKernels kernels_;
  const Accelerator* accelerator_;
  std::size_t tile_;  ///< elements, a multiple of the block
};

template <class Format>
std::unique_ptr<const Codec> make_block_codec(BlockCodecInfo info) {
  return std::make_unique<BlockCodec>(std::move(info), scalar_kernels<Format>());
}

}  // namespace ferrule::codec
