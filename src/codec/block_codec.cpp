#include "codec/block_codec.hpp"

#include <algorithm>

#include "codec/elements.hpp"

namespace ferrule::codec {
namespace {

std::size_t block_count(std::size_t elements, std::size_t block) { return (elements + block - 1) / block; }

// after = what the encode has left behind. An element that is delivered as NaN or Inf keeps its residual, and
// so does one whose residual would overflow.
void keep_error(const Feedback& feedback, std::size_t first, std::size_t count, const float* encoded,
                const float* delivered) {
  float* after = feedback.after + first;
  for (std::size_t i = 0; i < count; ++i) {
    const float before = feedback.before != nullptr ? feedback.before[first + i] : 0.0f;
    const float error = encoded[i] - delivered[i];
    const float kept = feedback.add ? error : before + error;
    after[i] = format::is_finite(kept) ? kept : before;
  }
}

}  // namespace

struct BlockCodec::Piece {
  std::size_t first;  ///< element of the call; a multiple of the block
  std::size_t count;  ///< elements
  std::size_t total;  ///< elements of the call
};

BlockCodec::BlockCodec(BlockCodecInfo info, const BlockKernels& scalar)
    : info_(std::move(info)),
      kernels_(scalar),
      accelerator_(find_accelerator(info_.shape)),
      tile_(info_.shape.block * std::max<std::size_t>(1, format::kLargestBlock / info_.shape.block)) {
  if (accelerator_ == nullptr) return;
  if (accelerator_->tiles.encode != nullptr) kernels_.encode = accelerator_->tiles.encode;
  if (accelerator_->tiles.decode != nullptr) kernels_.decode = accelerator_->tiles.decode;
}

std::size_t BlockCodec::encoded_bytes(std::size_t count, DType) const {
  const std::size_t block = info_.shape.block;
  const std::size_t tail = count % block;
  return block_count(count, block) * kernels_.header_bytes +
         count / block * kernels_.payload_bytes(info_.shape, block) +
         (tail != 0 ? kernels_.payload_bytes(info_.shape, tail) : 0);
}

template <class Byte>
Sections<Byte> BlockCodec::sections_of(Byte* encoded, const Piece& piece) const {
  const std::size_t block = info_.shape.block;
  const std::size_t before = piece.first / block;
  return {encoded + before * kernels_.header_bytes,
          encoded + block_count(piece.total, block) * kernels_.header_bytes +
              before * kernels_.payload_bytes(info_.shape, block)};
}

bool BlockCodec::read_term(const Term& term, DType dtype, const Piece& piece, float divisor, float* x) const {
  if (term.kind == Term::Kind::plain) {
    load_elements(term.data, dtype, piece.first, piece.count, x);
    return true;
  }
  const Tile tile{.count = piece.count, .divisor = divisor};
  return kernels_.decode(info_.shape, tile, sections_of(static_cast<const std::byte*>(term.data), piece), x);
}

bool BlockCodec::add_term(const Term& term, DType dtype, const Piece& piece, float divisor, float* x) const {
  if (kernels_.add != nullptr && term.kind == Term::Kind::encoded) {
    const Tile tile{.count = piece.count, .divisor = divisor};
    return kernels_.add(info_.shape, tile, sections_of(static_cast<const std::byte*>(term.data), piece), x);
  }
  alignas(64) float addend[kLargestTile];
  const bool finite = read_term(term, dtype, piece, divisor, addend);
  for (std::size_t i = 0; i < piece.count; ++i) x[i] += addend[i];
  return finite;
}

bool BlockCodec::gather(std::span<const Term> terms, DType dtype, const Piece& piece, float divisor,
                        float* x) const {
  bool finite = read_term(terms.front(), dtype, piece, divisor, x);
  for (const Term& term : terms.subspan(1)) finite &= add_term(term, dtype, piece, divisor, x);
  return finite;
}

void BlockCodec::read_back(const EncodeArgs& args, const Piece& piece, float* delivered) const {
  const bool rounded = args.final && args.dtype != DType::f32;
  const bool averaged = rounded && args.op == ReduceOp::avg;
  const auto divisor = averaged ? static_cast<float>(std::max(args.world, 1u)) : 1.0f;
  const Tile tile{.count = piece.count, .divisor = divisor};
  const std::byte* encoded = args.out;
  kernels_.decode(info_.shape, tile, sections_of(encoded, piece), delivered);
  if (!rounded) return;
  round_to_dtype(args.dtype, piece.count, delivered);
  if (!averaged) return;
  for (std::size_t i = 0; i < piece.count; ++i) delivered[i] *= divisor;
}

void BlockCodec::encode_piece(const EncodeArgs& args, const Piece& piece) const {
  alignas(64) float x[kLargestTile];
  gather(args.terms, args.dtype, piece, 1.0f, x);
  const Feedback& feedback = args.feedback;
  if (feedback.add && feedback.before != nullptr) {
    for (std::size_t i = 0; i < piece.count; ++i) x[i] += feedback.before[piece.first + i];
  }
  const Tile tile{.count = piece.count,
                  .first_element = args.noise.first_element + piece.first,
                  .noise_key = args.noise.key};
  kernels_.encode(info_.shape, tile, x, sections_of(args.out, piece));
  if (feedback.after == nullptr) return;
  alignas(64) float delivered[kLargestTile];
  read_back(args, piece, delivered);
  keep_error(feedback, piece.first, piece.count, x, delivered);
}

void BlockCodec::encode(const EncodeArgs& args) const {
  std::size_t done = 0;
  if (accelerator_ != nullptr && accelerator_->encode != nullptr) {
    done = accelerator_->encode(info_.shape, args);
  }
  for (std::size_t first = done; first < args.count; first += tile_) {
    encode_piece(args, {first, std::min(tile_, args.count - first), args.count});
  }
}

bool BlockCodec::decode_piece(const DecodeArgs& args, const Piece& piece) const {
  const auto divisor =
      args.finish && args.op == ReduceOp::avg ? static_cast<float>(std::max(args.world, 1u)) : 1.0f;
  // One encoded term is divided through its scale: one division per block.
  const bool by_scale = args.terms.size() == 1 && args.terms.front().kind == Term::Kind::encoded;
  alignas(64) float x[kLargestTile];
  const bool finite = gather(args.terms, args.dtype, piece, by_scale ? divisor : 1.0f, x);
  if (!by_scale && divisor != 1.0f) {
    for (std::size_t i = 0; i < piece.count; ++i) x[i] /= divisor;
  }
  store_elements(x, args.dtype, piece.first, piece.count, args.out);
  return finite;
}

bool BlockCodec::add_piece(const DecodeArgs& args, const Piece& piece) const {
  bool finite = true;
  float* x = static_cast<float*>(args.out) + piece.first;
  for (const Term& term : args.terms.subspan(1)) finite &= add_term(term, args.dtype, piece, 1.0f, x);
  return finite;
}

bool BlockCodec::decode(const DecodeArgs& args) const {
  Decoded done;
  if (accelerator_ != nullptr && accelerator_->decode != nullptr) {
    done = accelerator_->decode(info_.shape, args);
  }
  bool finite = done.finite;
  const bool in_place = kernels_.add != nullptr && adds_in_place(args);
  for (std::size_t first = done.count; first < args.count; first += tile_) {
    const Piece piece{first, std::min(tile_, args.count - first), args.count};
    finite &= in_place ? add_piece(args, piece) : decode_piece(args, piece);
  }
  return finite;
}

}  // namespace ferrule::codec
