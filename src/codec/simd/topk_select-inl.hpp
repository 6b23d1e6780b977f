// The largest magnitudes of a block in lanes (included once a target): the same choice as
// format::choose_largest, found in another way.
//
//   1. one pass over the block marks the elements that reach a bound; the blocks before say where some 1.6 k
//      elements will (TopKTracker),
//   2. if fewer than k do, or far too many: a pass, from cache, takes the maxima of some 4k groups of
//   elements;
//      bisecting these gives a bound that k groups, hence at least k elements, reach, and few more; the
//      elements are marked again,
//   3. of the candidates the k largest are kept: by counting for each how many are larger where they are few,
//      else by bisecting for the k-th largest; of equal ones the first are kept.
//
// Cost for a block in cache, where the bound holds: one pass of seven operations a vector, and some ten for
// each candidate. A pass is all that branches do not depend on.
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

/// Candidates that are ranked rather than bisected.
inline constexpr std::size_t kMostRanked = 48;

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
  /// Slack: the last vector, and marks that are listed before it is known that there are fewer.
  static constexpr std::size_t kSlack = 64;
  alignas(64) std::uint32_t maxima[format::kLargestTopKBlock / 2];
  alignas(64) std::uint8_t marks[format::kLargestTopKBlock / 8];
  /// First of the candidates, then of what is kept.
  alignas(64) std::uint16_t positions[format::kLargestTopKBlock + kSlack];
  alignas(64) float values[format::kLargestTopKBlock + kSlack];
  alignas(64) std::uint32_t magnitudes[format::kLargestTopKBlock + kSlack];  ///< of candidates
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

/// Narrows the bracket until `kept` to `most` values reach `low`, or nothing is left between. Looks at
/// `probe` first and, while that is too low, in growing steps above it.
HWY_INLINE void bisect(const std::uint32_t* magnitudes, std::size_t count, std::size_t kept, std::size_t most,
                       std::uint32_t probe, Bracket& bracket) {
  const auto middle = [&] { return bracket.low + (bracket.high - bracket.low) / 2; };
  if (probe <= bracket.low || probe >= bracket.high) probe = middle();
  std::uint32_t step = (probe - bracket.low) / 2 + 1;
  while (bracket.reach > most && bracket.high - bracket.low > 1) {
    const std::size_t reach = count_reaching(magnitudes, count, probe);
    const bool enough = reach >= kept;
    bracket.low = enough ? probe : bracket.low;
    bracket.reach = enough ? reach : bracket.reach;
    bracket.high = enough ? bracket.high : probe;
    probe = std::min(middle(), bracket.low + step);
    step = std::min(2 * step, 1U << 28);
  }
}

/// The positions of the bits that are set. Writes up to kAtOnce more. kAtOnce are taken without asking, as
/// most words have fewer: a branch a word, which is mostly right.
template <std::size_t kAtOnce>
HWY_INLINE std::size_t list_marks(const std::uint8_t* marks, std::size_t block, std::uint16_t* positions) {
  std::uint16_t* at = positions;
  for (std::size_t base = 0; base < block; base += 64) {
    std::uint64_t bits;
    std::memcpy(&bits, marks + base / 8, sizeof bits);
    std::uint16_t* const end = at + std::popcount(bits);
    do {
      for (std::size_t i = 0; i < kAtOnce; ++i) {
        // The highest bit changes nothing unless there are none left; then it saves a test for that.
        const auto first = static_cast<std::size_t>(std::countr_zero(bits | std::uint64_t{1} << 63));
        at[i] = static_cast<std::uint16_t>(base + first);
        bits &= bits - 1;
      }
      at += kAtOnce;
    } while (bits != 0);
    at = end;
  }
  return static_cast<std::size_t>(at - positions);
}

/// `expected`: how many there are, about.
HWY_INLINE std::size_t list_marks(const std::uint8_t* marks, std::size_t block, std::size_t expected,
                                  std::uint16_t* positions) {
  return expected * 16 < block ? list_marks<4>(marks, block, positions)
                               : list_marks<8>(marks, block, positions);
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

/// Marks the elements whose magnitude reaches `bound`, and returns the largest magnitude. value(i) gives the
/// vector of elements from i on, in order.
template <class Value>
HWY_INLINE std::uint32_t mark(std::size_t block, std::uint32_t bound, std::uint8_t* marks,
                              const Value& value) {
  const std::size_t lanes = hn::Lanes(Floats());
  const auto limit = below(bound);
  WordV largest0 = hn::Zero(Words());
  WordV largest1 = largest0;
  for (std::size_t i = 0; i < block; i += 2 * lanes) {
    const WordV a = magnitude(value(i));
    const WordV b = magnitude(value(i + lanes));
    largest0 = larger(largest0, a);
    largest1 = larger(largest1, b);
    store_marks(marks, i, reaches(a, limit));
    store_marks(marks, i + lanes, reaches(b, limit));
  }
  return largest_lane(larger(largest0, largest1));
}

/// Takes the maxima of all groups and returns the smallest of them.
HWY_INLINE std::uint32_t take_maxima(const TopKGeometry& geometry, const float* values,
                                     std::uint32_t* maxima) {
  const std::size_t lanes = hn::Lanes(Floats());
  auto smallest = hn::Set(Ints(), static_cast<std::int32_t>(format::kMagnitudeMask));
  for (std::size_t first = 0; first < geometry.groups; first += geometry.section) {
    WordV best[kMaximaVectors];
    unroll<kMaximaVectors>([&](auto v) FERRULE_SIMD_LAMBDA { best[v] = hn::Zero(Words()); });
    for (std::size_t row = 0; row < geometry.rows; ++row) {
      unroll<kMaximaVectors>([&](auto v) FERRULE_SIMD_LAMBDA {
        best[v] = larger(best[v], magnitude(hn::LoadU(Floats(), values)));
        values += lanes;
      });
    }
    unroll<kMaximaVectors>([&](auto v) FERRULE_SIMD_LAMBDA {
      hn::Store(best[v], Words(), maxima + first + v * lanes);
      smallest = hn::Min(smallest, hn::BitCast(Ints(), best[v]));
    });
  }
  return static_cast<std::uint32_t>(hn::GetLane(hn::MinOfLanes(Ints(), smallest)));
}

/// Where the search in the next block begins. Only speed depends on it.
struct TopKTracker {
  /// Candidates are to be 1.25 to 2 times k. In units of magnitude bits, of which 2^23 are an octave.
  std::uint32_t margin = 1U << 20;
  std::uint32_t threshold = 0;  ///< the k-th largest of late, a moving average

  std::uint32_t bound() const { return threshold > margin ? threshold - margin : 1; }

  void learn(std::uint32_t kth, std::size_t found, std::size_t kept) {
    if (kth == 0) return;
    const std::uint32_t up = kth > threshold ? kth - threshold : 0;
    const std::uint32_t down = threshold > kth ? threshold - kth : 0;
    // Far off: begin again.
    threshold = std::max(up, down) > (1U << 21) ? kth : threshold + up / 4 - down / 4;
    if (found < kept + kept / 4) margin = std::min(margin + margin / 8, 1U << 23);
    if (found > 2 * kept) margin = std::max(margin - margin / 8, 1U << 16);
  }
};

/// Takes the candidates whose magnitude is above `threshold`, and the first `equals` of those that have it.
HWY_INLINE void keep_some(std::size_t found, std::uint32_t threshold, std::size_t equals,
                          TopKScratch& scratch) {
  std::size_t to = 0;
  for (std::size_t j = 0; j < found; ++j) {
    const std::uint32_t size = scratch.magnitudes[j];
    const bool equal = size == threshold && equals > 0;
    scratch.positions[to] = scratch.positions[j];
    scratch.values[to] = scratch.values[j];
    to += size > threshold || equal ? 1 : 0;
    equals -= equal ? 1 : 0;
  }
}

/// The same where all that have it are taken. Moves a candidate before it knows: no branch to guess.
HWY_INLINE void keep_reaching(std::size_t found, std::uint32_t threshold, TopKScratch& scratch) {
  std::size_t to = 0;
  for (std::size_t j = 0; j < found; ++j) {
    scratch.positions[to] = scratch.positions[j];
    scratch.values[to] = scratch.values[j];
    to += scratch.magnitudes[j] >= threshold ? 1 : 0;
  }
}

/// Few candidates, without two equal ones at the border: those of which fewer than `kept` are larger.
HWY_INLINE bool keep_by_rank(std::size_t found, std::size_t kept, TopKScratch& scratch) {
  const std::size_t lanes = hn::Lanes(Words());
  const auto limit = hn::Set(Ints(), static_cast<std::int32_t>(kept));
  auto total = hn::Zero(Ints());
  alignas(64) std::int32_t keeps[kMostRanked];
  for (std::size_t first = 0; first < found; first += lanes) {
    const auto mine = hn::BitCast(Ints(), hn::Load(Words(), scratch.magnitudes + first));
    auto rank = hn::Zero(Ints());
    for (std::size_t j = 0; j < found; ++j) {
      const auto other = hn::Set(Ints(), static_cast<std::int32_t>(scratch.magnitudes[j]));
      rank = hn::Sub(rank, hn::VecFromMask(Ints(), hn::Gt(other, mine)));
    }
    // 1 where kept; what is behind the end ranks last.
    const auto keep = hn::ShiftRight<31>(hn::Sub(rank, limit));
    total = hn::Sub(total, keep);
    hn::Store(keep, Ints(), keeps + first);
  }
  if (static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(Ints(), total))) != kept) return false;
  std::size_t to = 0;
  for (std::size_t j = 0; j < found; ++j) {
    scratch.positions[to] = scratch.positions[j];
    scratch.values[to] = scratch.values[j];
    to += static_cast<std::size_t>(-keeps[j]);
  }
  return true;
}

/// From more than `kept` candidates to what is kept, in scratch.positions and .values.
HWY_INLINE void choose_candidates(const TopKGeometry& geometry, std::size_t found, Bracket bracket,
                                  std::uint32_t probe, TopKScratch& scratch) {
  const std::size_t kept = geometry.kept;
  const std::size_t lanes = hn::Lanes(Words());
  for (std::size_t j = 0; j < found; j += lanes) {
    hn::Store(magnitude(hn::Load(Floats(), scratch.values + j)), Words(), scratch.magnitudes + j);
  }
  hn::StoreU(hn::Zero(Words()), Words(), scratch.magnitudes + found);
  if (found <= kMostRanked && keep_by_rank(found, kept, scratch)) return;
  const std::size_t padded = (found + lanes - 1) / lanes * lanes;
  bisect(scratch.magnitudes, padded, kept, kept, probe, bracket);
  if (bracket.reach == kept) return keep_reaching(found, bracket.low, scratch);
  const std::size_t above = count_reaching(scratch.magnitudes, padded, bracket.low + 1);
  keep_some(found, bracket.low, kept - above, scratch);
}

/// Fewer than `kept` elements are not zero: the first zeros fill up.
HWY_NOINLINE void take_with_zeros(const float* values, const TopKGeometry& geometry, std::size_t nonzero,
                                  TopKScratch& scratch) {
  if (nonzero == 0) {
    for (std::size_t j = 0; j < geometry.kept; ++j) scratch.positions[j] = static_cast<std::uint16_t>(j);
  } else {
    format::list_positions(values, geometry.block, {0, geometry.kept - nonzero}, scratch.positions);
  }
  for (std::size_t j = 0; j < geometry.kept; ++j) scratch.values[j] = values[scratch.positions[j]];
}

/// The tracker's bound was no good: marks the elements that reach one which is. Returns it.
HWY_NOINLINE std::uint32_t mark_anew(const float* values, const TopKGeometry& geometry, std::uint32_t largest,
                                     std::uint32_t probe, TopKScratch& scratch) {
  Bracket bracket{take_maxima(geometry, values, scratch.maxima), largest + 1, geometry.groups};
  bisect(scratch.maxima, geometry.groups, geometry.kept, geometry.kept + geometry.kept / 4, probe, bracket);
  const std::uint32_t bound = std::max(bracket.low, 1U);
  mark(geometry.block, bound, scratch.marks,
       [&](std::size_t i) FERRULE_SIMD_LAMBDA { return hn::LoadU(Floats(), values + i); });
  return bound;
}

HWY_INLINE std::size_t count_marks(const std::uint8_t* marks, std::size_t block) {
  std::size_t count = 0;
  for (std::size_t base = 0; base < block; base += 64) {
    std::uint64_t bits;
    std::memcpy(&bits, marks + base / 8, sizeof bits);
    count += static_cast<std::size_t>(std::popcount(bits));
  }
  return count;
}

/// From the marks of all elements that reach the tracker's bound to what is kept, in scratch.positions and
/// .values.
HWY_NOINLINE void choose_marked(const float* values, const TopKGeometry& geometry, std::uint32_t largest,
                                TopKTracker& tracker, TopKScratch& scratch) {
  const std::size_t kept = geometry.kept;
  std::uint32_t bound = tracker.bound();
  const std::size_t marked = count_marks(scratch.marks, geometry.block);
  if (marked < kept || marked > 4 * kept) {
    bound = mark_anew(values, geometry, largest, tracker.threshold, scratch);
  }
  const std::size_t found = list_marks(scratch.marks, geometry.block, kept + kept / 2, scratch.positions);
  if (found < kept) return take_with_zeros(values, geometry, found, scratch);
  for (std::size_t j = 0; j < found; ++j) scratch.values[j] = values[scratch.positions[j]];
  if (found > kept) {
    choose_candidates(geometry, found, {bound, largest + 1, found}, tracker.threshold, scratch);
  }
  std::uint32_t kth = format::kMagnitudeMask;
  for (std::size_t j = 0; j < kept; ++j) kth = std::min(kth, format::magnitude_bits(scratch.values[j]));
  tracker.learn(kth, marked, kept);
}

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#endif  // FERRULE_CODEC_SIMD_TOPK_SELECT_INL_
