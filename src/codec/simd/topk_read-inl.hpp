// Encoded blocks of block top-k, read faster than format::BlockTopK::read and with the same result (included
// once a target).
#if defined(FERRULE_CODEC_SIMD_TOPK_READ_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRULE_CODEC_SIMD_TOPK_READ_INL_
#undef FERRULE_CODEC_SIMD_TOPK_READ_INL_
#else
#define FERRULE_CODEC_SIMD_TOPK_READ_INL_
#endif

#include <algorithm>

#include "codec/kernels.hpp"
#include "codec/simd/block_sum-inl.hpp"
#include "codec/simd/topk_select-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

/// Where the parts of a call's encoded bytes lie.
template <class Format>
struct TopKCall {
  TopKCall(const BlockShape& shape, std::size_t count)
      : block(shape.block),
        kept(shape.kept),
        full(count / shape.block),
        headers((count + shape.block - 1) / shape.block * Format::kHeaderBytes),
        layout(format::TopKLayout::of(shape.block, shape.block, shape.kept)),
        payload(Format::payload_bytes(shape.block, shape.block, shape.kept)) {}

  BlockPlace place(std::size_t number) const {
    return {number * block, number * Format::kHeaderBytes, headers + number * payload};
  }
  format::BlockAt block_at(float divisor) const {
    return {.count = block, .block = block, .divisor = divisor, .kept = kept};
  }

  std::size_t block;
  std::size_t kept;
  std::size_t full;     ///< full blocks
  std::size_t headers;  ///< bytes
  format::TopKLayout layout;
  std::size_t payload;  ///< bytes of a block
};

/// The vector code is written for up to 16 lanes, of which a section of every block is made.
inline bool takes_topk_lanes() { return hn::Lanes(Floats()) <= 16; }

/// What one block says.
struct SparseBlock {
  alignas(64) std::uint16_t positions[format::kLargestTopKBlock + TopKScratch::kSlack];
  alignas(64) float values[format::kMostKept];
};

/// format::unpack_positions, where four bytes may be read at each number.
HWY_INLINE bool read_numbers(const std::byte* in, const format::TopKLayout& layout, std::size_t count,
                             std::uint16_t* positions) {
  const unsigned width = layout.index_bits;
  const std::uint32_t mask = (1U << width) - 1U;
  std::uint32_t lowest = 0;
  std::uint32_t bad = 0;
  std::size_t bit = 0;
  for (std::size_t j = 0; j < layout.kept; ++j, bit += width) {
    const std::uint32_t position = (format::load_u32(in + bit / 8) >> (bit % 8)) & mask;
    bad |= static_cast<std::uint32_t>(position < lowest);
    lowest = position + 1;
    positions[j] = static_cast<std::uint16_t>(position);
  }
  return bad == 0 && lowest <= count;
}

HWY_INLINE bool read_bitmap(const std::byte* in, const format::TopKLayout& layout, std::size_t count,
                            std::uint16_t* positions) {
  std::uint8_t marks[format::kLargestTopKBlock / 8];
  std::memcpy(marks, in, count / 8);
  return list_marks(marks, count, layout.kept, positions) == layout.kept;
}

/// False: the block is NaN throughout.
template <class Format>
HWY_NOINLINE bool read_block(const TopKCall<Format>& call, const Term& term, const BlockPlace& place,
                             float divisor, SparseBlock& sparse) {
  const auto* const encoded = static_cast<const std::byte*>(term.data);
  const std::byte* const payload = encoded + place.payload;
  const format::TopKLayout& layout = call.layout;
  bool finite = false;
  if (layout.bitmap) {
    finite = read_bitmap(payload, layout, call.block, sparse.positions);
  } else if (layout.kept * Format::kValueBytes >= 4) {
    finite = read_numbers(payload, layout, call.block, sparse.positions);
  } else {
    finite = format::unpack_positions(payload, layout, call.block, sparse.positions);
  }
  const float scale = Format::read_scale(encoded + place.header, call.block_at(divisor));
  const std::byte* const codes = payload + layout.position_bytes;
  std::uint32_t largest = 0;
  for (std::size_t j = 0; j < layout.kept; ++j) {
    sparse.values[j] = Format::value_of(codes + Format::kValueBytes * j, scale, divisor);
    largest = std::max(largest, format::magnitude_bits(sparse.values[j]));
  }
  return finite && largest < format::kInfinityBits;
}

HWY_INLINE void fill(float* x, std::size_t count, float value) {
  const FloatV all = hn::Set(Floats(), value);
  for (std::size_t i = 0; i < count; i += hn::Lanes(Floats())) hn::StoreU(all, Floats(), x + i);
}

/// Sums of terms, block by block. Not for several threads: it has room for one block.
template <class Format, class Elements>
class TopKSum {
 public:
  TopKSum(const TopKCall<Format>& call, std::span<const Term> terms, DType dtype, float divisor)
      : call_(call), terms_(terms), elements_(dtype), divisor_(divisor) {}

  /// x = the sum of the terms; whether the encoded ones were finite.
  HWY_INLINE bool block(const BlockPlace& place, float* x) {
    bool finite = true;
    if (terms_.front().kind == Term::Kind::plain) {
      load(terms_.front(), place, x);
    } else {
      fill(x, call_.block, 0.0F);
      finite = read_block(call_, terms_.front(), place, divisor_, sparse_);
      for (std::size_t j = 0; finite && j < call_.layout.kept; ++j)
        x[sparse_.positions[j]] = sparse_.values[j];
      if (!finite) fill(x, call_.block, format::canonical_nan());
    }
    return add(terms_.subspan(1), place, x) && finite;
  }

  /// x += each of `terms`.
  HWY_INLINE bool add(std::span<const Term> terms, const BlockPlace& place, float* x) {
    bool finite = true;
    for (const Term& term : terms) {
      if (term.kind == Term::Kind::plain) {
        add_plain(term, place, x);
      } else {
        finite &= add_encoded(term, place, x);
      }
    }
    return finite;
  }

 private:
  const typename Elements::Stored* plain(const Term& term, const BlockPlace& place) const {
    return static_cast<const typename Elements::Stored*>(term.data) + place.first;
  }

  HWY_INLINE void load(const Term& term, const BlockPlace& place, float* x) const {
    const auto* from = plain(term, place);
    const Elements elements = elements_;
    for (std::size_t i = 0; i < call_.block; i += hn::Lanes(Floats())) {
      hn::StoreU(elements.load(from + i), Floats(), x + i);
    }
  }

  HWY_INLINE void add_plain(const Term& term, const BlockPlace& place, float* x) const {
    const auto* from = plain(term, place);
    const Elements elements = elements_;
    for (std::size_t i = 0; i < call_.block; i += hn::Lanes(Floats())) {
      hn::StoreU(hn::Add(hn::LoadU(Floats(), x + i), elements.load(from + i)), Floats(), x + i);
    }
  }

  HWY_INLINE bool add_encoded(const Term& term, const BlockPlace& place, float* x) {
    if (!read_block(call_, term, place, divisor_, sparse_)) {
      fill(x, call_.block, format::canonical_nan());
      return false;
    }
    for (std::size_t j = 0; j < call_.layout.kept; ++j) {
      float& at = x[sparse_.positions[j]];
      at = at + sparse_.values[j];
    }
    return true;
  }

  const TopKCall<Format>& call_;
  std::span<const Term> terms_;
  Elements elements_;
  float divisor_;
  SparseBlock sparse_;
};

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#endif  // FERRULE_CODEC_SIMD_TOPK_READ_INL_
