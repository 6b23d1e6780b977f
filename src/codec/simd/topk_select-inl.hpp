// The largest magnitudes of a block in lanes (included once a target): the same choice as
// format::choose_largest, found in another way.
//
//   1. one pass takes the maxima of some 4k groups of elements,
//   2. bisecting the maxima gives a bound that k groups, hence at least k elements, reach, and few more,
//   3. a second pass, from cache, marks the elements that reach it: about 1.5 k candidates,
//   4. bisecting the candidates gives the k-th largest; of equal ones the first are kept.
#if defined(FERRULE_CODEC_SIMD_TOPK_SELECT_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRULE_CODEC_SIMD_TOPK_SELECT_INL_
#undef FERRULE_CODEC_SIMD_TOPK_SELECT_INL_
#else
#define FERRULE_CODEC_SIMD_TOPK_SELECT_INL_
#endif

#include <algorithm>
#include <bit>
#include <cstring>

#include "codec/format/block_topk.hpp"
#include "codec/simd/lanes-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

/// Vectors of maxima that pass 1 keeps in registers.
inline constexpr std::size_t kMaximaVectors = 8;

/// What every block of a call has in common.
struct TopKGeometry {
  TopKGeometry(std::size_t block_elements, std::size_t kept_of_block)
      : block(block_elements),
        kept(kept_of_block),
        section(kMaximaVectors * hn::Lanes(Floats())),
        groups(std::min(block / 2, std::max(section, std::bit_ceil(4 * kept)))),
        rows(block / groups) {}

  std::size_t block;
  std::size_t kept;
  std::size_t section;  ///< maxima that are found at once, of `rows` times as many consecutive elements
  std::size_t groups;
  std::size_t rows;  ///< elements of a group
};

/// Memory of the selection.
struct TopKScratch {
  /// Slack: the last vector, and positions that are written before it is known that there are fewer.
  static constexpr std::size_t kSlack = 64;
  alignas(64) std::uint32_t maxima[format::kLargestTopKBlock / 2];
  alignas(64) std::uint32_t magnitudes[format::kLargestTopKBlock + kSlack];
  alignas(64) std::uint8_t marks[format::kLargestTopKBlock / 8];
  alignas(64) std::uint16_t positions[format::kLargestTopKBlock + kSlack];
};

/// Magnitudes are below 2^31: signed comparison, which all targets have.
HWY_INLINE auto reaches(WordV magnitudes, hn::VFromD<Ints> below_bound) {
  return hn::Gt(hn::BitCast(Ints(), magnitudes), below_bound);
}

HWY_INLINE hn::VFromD<Ints> below(std::uint32_t bound) {
  return hn::Set(Ints(), static_cast<std::int32_t>(bound) - 1);
}

/// How many of `count` magnitudes, whole vectors, are at least `bound`; bound > 0.
HWY_INLINE std::size_t count_reaching(const std::uint32_t* magnitudes, std::size_t count,
                                      std::uint32_t bound) {
  const std::size_t lanes = hn::Lanes(Words());
  const auto limit = below(bound);
  auto reach = hn::Zero(Ints());
  for (std::size_t i = 0; i < count; i += lanes) {
    const auto yes = reaches(hn::Load(Words(), magnitudes + i), limit);
    reach = hn::Sub(reach, hn::VecFromMask(Ints(), yes));
  }
  return static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(Ints(), reach)));
}

/// low: reached by at least as many as wanted, `reach` of them. high: by fewer.
struct Bracket {
  std::uint32_t low;
  std::uint32_t high;
  std::size_t reach;
};

/// Narrows the bracket until `kept` to `most` values reach `low`, or nothing is left between. `probe` is
/// where to look first.
HWY_INLINE void bisect(const std::uint32_t* magnitudes, std::size_t count, std::size_t kept, std::size_t most,
                       std::uint32_t probe, Bracket& bracket) {
  if (probe <= bracket.low || probe >= bracket.high) {
    probe = bracket.low + (bracket.high - bracket.low) / 2;
  }
  while (bracket.reach > most && bracket.high - bracket.low > 1) {
    const std::size_t reach = count_reaching(magnitudes, count, probe);
    if (reach >= kept) {
      bracket.low = probe;
      bracket.reach = reach;
    } else {
      bracket.high = probe;
    }
    probe = bracket.low + (bracket.high - bracket.low) / 2;
  }
}

/// The positions of the bits that are set. Writes up to four more.
HWY_INLINE std::size_t list_marks(const std::uint8_t* marks, std::size_t block, std::uint16_t* positions) {
  std::uint16_t* at = positions;
  for (std::size_t base = 0; base < block; base += 64) {
    std::uint64_t bits;
    std::memcpy(&bits, marks + base / 8, sizeof bits);
    std::uint16_t* const end = at + std::popcount(bits);
    // Four without asking, as most words have fewer: a branch a word, which is mostly right.
    do {
      for (std::size_t i = 0; i < 4; ++i) {
        at[i] = static_cast<std::uint16_t>(base + static_cast<std::size_t>(std::countr_zero(bits)));
        bits &= bits - 1;
      }
      at += 4;
    } while (bits != 0);
    at = end;
  }
  return static_cast<std::size_t>(at - positions);
}

HWY_INLINE void store_marks(std::uint8_t* marks, std::size_t first, hn::MFromD<Ints> mask) {
  if (hn::Lanes(Ints()) >= 8) {
    hn::StoreMaskBits(Ints(), mask, marks + first / 8);
    return;
  }
  std::uint8_t bits[8];
  hn::StoreMaskBits(Ints(), mask, bits);
  std::uint8_t& both = marks[first / 8];
  both = static_cast<std::uint8_t>(first % 8 == 0 ? bits[0] : both | (bits[0] << 4));
}

/// The maxima of one block, and the bounds of all of them.
class Maxima {
 public:
  HWY_INLINE Maxima() : smallest_(hn::Set(Words(), format::kMagnitudeMask)), largest_(hn::Zero(Words())) {}

  /// Takes the maxima of all groups; value(i) gives the vector of elements from i on, in order.
  template <class Value>
  HWY_INLINE void take(const TopKGeometry& geometry, std::uint32_t* maxima, const Value& value) {
    const std::size_t lanes = hn::Lanes(Floats());
    std::size_t i = 0;
    for (std::size_t first = 0; first < geometry.groups; first += geometry.section) {
      WordV best[kMaximaVectors];
      unroll<kMaximaVectors>([&](auto v) FERRULE_SIMD_LAMBDA { best[v] = hn::Zero(Words()); });
      for (std::size_t row = 0; row < geometry.rows; ++row) {
        unroll<kMaximaVectors>([&](auto v) FERRULE_SIMD_LAMBDA {
          best[v] = larger(best[v], magnitude(value(i)));
          i += lanes;
        });
      }
      unroll<kMaximaVectors>([&](auto v) FERRULE_SIMD_LAMBDA {
        hn::Store(best[v], Words(), maxima + first + v * lanes);
        largest_ = larger(largest_, best[v]);
        smallest_ =
            hn::BitCast(Words(), hn::Min(hn::BitCast(Ints(), smallest_), hn::BitCast(Ints(), best[v])));
      });
    }
  }

  HWY_INLINE std::uint32_t largest() const { return largest_lane(largest_); }
  HWY_INLINE std::uint32_t smallest() const {
    return static_cast<std::uint32_t>(hn::GetLane(hn::MinOfLanes(Ints(), hn::BitCast(Ints(), smallest_))));
  }

 private:
  WordV smallest_;
  WordV largest_;
};

/// Marks the elements whose magnitude reaches `bound`; also(i, value) sees each vector.
template <class Also>
HWY_INLINE void mark(const float* values, std::size_t block, std::uint32_t bound, std::uint8_t* marks,
                     const Also& also) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto limit = below(bound);
  for (std::size_t i = 0; i < block; i += 2 * lanes) {
    const FloatV a = hn::LoadU(Floats(), values + i);
    const FloatV b = hn::LoadU(Floats(), values + i + lanes);
    store_marks(marks, i, reaches(magnitude(a), limit));
    store_marks(marks, i + lanes, reaches(magnitude(b), limit));
    also(i, a);
    also(i + lanes, b);
  }
}

/// Fewer than `kept` elements are not zero: the first zeros fill up.
HWY_NOINLINE void list_with_zeros(const float* values, const TopKGeometry& geometry, std::size_t nonzero,
                                  TopKScratch& scratch) {
  format::list_positions(values, geometry.block, {0, geometry.kept - nonzero}, scratch.positions);
}

/// From the marks of all elements that reach `bound` to the `kept` positions, in scratch.positions.
HWY_NOINLINE void choose_marked(const float* values, const TopKGeometry& geometry, std::uint32_t bound,
                                std::uint32_t largest, TopKScratch& scratch) {
  const std::size_t found = list_marks(scratch.marks, geometry.block, scratch.positions);
  if (found == geometry.kept) return;
  if (found < geometry.kept) return list_with_zeros(values, geometry, found, scratch);
  for (std::size_t j = 0; j < found; ++j) {
    scratch.magnitudes[j] = format::magnitude_bits(values[scratch.positions[j]]);
  }
  const std::size_t lanes = hn::Lanes(Words());
  hn::StoreU(hn::Zero(Words()), Words(), scratch.magnitudes + found);
  const std::size_t padded = (found + lanes - 1) / lanes * lanes;
  Bracket bracket{bound, largest + 1, found};
  bisect(scratch.magnitudes, padded, geometry.kept, geometry.kept, 0, bracket);
  std::size_t equals = found;
  if (bracket.reach != geometry.kept) {
    equals = geometry.kept - count_reaching(scratch.magnitudes, padded, bracket.low + 1);
  }
  std::uint16_t* at = scratch.positions;
  for (std::size_t j = 0; j < found; ++j) {
    const std::uint32_t size = scratch.magnitudes[j];
    const bool equal = size == bracket.low && equals > 0;
    *at = scratch.positions[j];
    at += size > bracket.low || equal ? 1 : 0;
    equals -= equal ? 1 : 0;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#endif  // FERRULE_CODEC_SIMD_TOPK_SELECT_INL_
