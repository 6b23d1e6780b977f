// Where the parts of an encoded call lie, and the sum of its terms in registers (included once a target).
#if defined(FERRULE_CODEC_SIMD_BLOCK_SUM_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRULE_CODEC_SIMD_BLOCK_SUM_INL_
#undef FERRULE_CODEC_SIMD_BLOCK_SUM_INL_
#else
#define FERRULE_CODEC_SIMD_BLOCK_SUM_INL_
#endif

#include <hwy/cache_control.h>

#include <span>

#include "codec/kernels.hpp"
#include "codec/simd/formats-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

/// One full block of a call: its first element and the offsets of its parts in encoded bytes.
struct BlockPlace {
  std::size_t first;
  std::size_t header;
  std::size_t payload;
};

/// Where the parts of a call's encoded bytes lie. A format without scales has no blocks of its own: it is cut
/// at 128.
template <class Format>
struct Geometry {
  std::size_t block;
  std::size_t full;     ///< full blocks
  std::size_t headers;  ///< bytes

  Geometry(std::size_t shape_block, std::size_t count)
      : block(Format::kScaled ? shape_block : 128),
        full(count / block),
        headers((count + block - 1) / block * Format::kHeaderBytes) {}

  BlockPlace place(std::size_t number) const {
    return {number * block, number * Format::kHeaderBytes, headers + number * Format::payload_bytes(block)};
  }
  format::BlockAt block_at(float divisor = 1.0F) const {
    return {.count = block, .block = block, .divisor = divisor};
  }
};

/// How many blocks ahead inputs are asked for.
inline constexpr std::size_t kBlocksAhead = 8;

HWY_INLINE void prefetch_bytes(const void* data, std::size_t bytes) {
  const auto* at = static_cast<const std::byte*>(data);
  for (std::size_t offset = 0; offset < bytes; offset += 64) hwy::Prefetch(at + offset);
}

/// The sum of a call's terms.
template <class Format, class Elements>
class Sum {
 public:
  using Chunk = FloatV[Format::kChunk];

  Sum(std::span<const Term> terms, DType dtype, const Geometry<Format>& geometry, float divisor)
      : terms_(terms),
        elements_(dtype),
        geometry_(geometry),
        stride_(Format::stride(geometry.block)),
        divisor_(divisor) {}

  /// acc = vectors kFirst ... of a group of a block. `worst` collects the decoded magnitudes of formats whose
  /// scale does not bound them.
  template <std::size_t kFirst>
  HWY_INLINE void chunk(const BlockPlace& place, std::size_t group, Chunk& acc, WordV& worst) const {
    const Term* term = terms_.data();
    const Term* const end = term + terms_.size();
    read<kFirst, true>(*term, place, group, acc, worst);
    while (++term != end) read<kFirst, false>(*term, place, group, acc, worst);
  }

  /// Asks for a block's inputs some blocks before they are needed: the processor's own prefetcher loses the
  /// thread while a block is quantised.
  HWY_INLINE void prefetch(const BlockPlace& place) const {
    for (const Term& term : terms_) {
      if (term.kind == Term::Kind::plain) {
        const auto* elements = static_cast<const typename Elements::Stored*>(term.data) + place.first;
        prefetch_bytes(elements, geometry_.block * sizeof(*elements));
      } else {
        prefetch_bytes(bytes_of(term) + place.payload, Format::payload_bytes(geometry_.block));
      }
    }
  }

  /// Whether the encoded terms of a block decode to finite values, as far as scales tell.
  HWY_INLINE bool scales_finite(const BlockPlace& place) const {
    if constexpr (!Format::kFiniteByScale) return true;
    bool finite = true;
    for (const Term& term : terms_) {
      if (term.kind == Term::Kind::plain || Format::surely_finite(bytes_of(term) + place.header)) continue;
      finite &= block_finite(bytes_of(term), place);
    }
    return finite;
  }

 private:
  static const std::byte* bytes_of(const Term& term) { return static_cast<const std::byte*>(term.data); }

  /// Hostile bytes, or values next to fp32's largest: the scalar code looks at each.
  HWY_NOINLINE bool block_finite(const std::byte* encoded, const BlockPlace& place) const {
    float values[format::kLargestBlock];
    return format::ScaledBlock<typename Format::Scalar>::decode(
        encoded + place.header, encoded + place.payload, geometry_.block_at(divisor_), values);
  }

  template <std::size_t kFirst, bool kStart>
  HWY_INLINE void read(const Term& term, const BlockPlace& place, std::size_t group, Chunk& acc,
                       WordV& worst) const {
    if (term.kind == Term::Kind::plain) {
      const auto* at = static_cast<const typename Elements::Stored*>(term.data) + place.first +
                       Format::group_start(group) + kFirst * stride_;
      const std::size_t stride = stride_;
      unroll<Format::kChunk>([&](auto k) FERRULE_SIMD_LAMBDA {
        add<kStart>(acc[k], elements_.load(at));
        at += stride;
      });
      return;
    }
    const std::byte* codes = bytes_of(term) + place.payload + group * Format::group_bytes();
    const FloatV scale = hn::Set(Floats(), scale_of(term, place));
    unroll<Format::kChunk>([&](auto k) FERRULE_SIMD_LAMBDA {
      FloatV value = Format::template decode<kFirst + k>(codes, scale);
      if constexpr (!Format::kScaled) {
        if (divisor_ != 1.0F) value = hn::Div(value, hn::Set(Floats(), divisor_));
      }
      if constexpr (!Format::kFiniteByScale) worst = larger(worst, magnitude(value));
      add<kStart>(acc[k], value);
    });
  }

  HWY_INLINE float scale_of(const Term& term, const BlockPlace& place) const {
    if constexpr (!Format::kScaled) return 1.0F;
    const float scale = wire_scale(bytes_of(term) + place.header);
    return divisor_ == 1.0F ? scale : scale / divisor_;
  }

  template <bool kStart>
  static HWY_INLINE void add(FloatV& sum, FloatV value) {
    sum = kStart ? value : hn::Add(sum, value);
  }

  std::span<const Term> terms_;
  Elements elements_;
  Geometry<Format> geometry_;
  std::size_t stride_;
  float divisor_;
};

/// Calls body(group, first vector of the chunk as a constant) for every chunk of a block.
template <class Format, class Body>
HWY_INLINE void for_each_chunk(std::size_t block, const Body& body) {
  const std::size_t groups = Format::groups(block);
  for (std::size_t group = 0; group < groups; ++group) {
    unroll<Format::kVectors / Format::kChunk>([&](auto chunk) FERRULE_SIMD_LAMBDA {
      body(group, std::integral_constant<std::size_t, chunk * Format::kChunk>());
    });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#endif  // FERRULE_CODEC_SIMD_BLOCK_SUM_INL_
