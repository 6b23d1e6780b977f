#include "communicator/nonfinite.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ferrule::communicator {
namespace {

/// One element of this format in each lane of 64 bits.
std::uint64_t in_all_lanes(std::uint64_t lane, int lane_bits) {
  for (int bits = lane_bits; bits < 64; bits *= 2) lane |= lane << bits;
  return lane;
}

// An exponent of all ones plus one in its lowest bit carries into the sign bit, and no further once the sign
// is masked: so 64 bits are looked at in three operations, whatever the element, without vector instructions.
template <class Word, int kMantissaBits>
struct Format {
  static constexpr int kBits = 8 * sizeof(Word);
  static constexpr std::size_t kWordsAtOnce = 8 / sizeof(Word);
  static constexpr Word kSign = static_cast<Word>(Word{1} << (kBits - 1));
  static constexpr Word kOne = static_cast<Word>(Word{1} << kMantissaBits);
  static constexpr Word kMantissa = static_cast<Word>(kOne - 1);

  static bool is_bad(Word bits) {
    return (static_cast<Word>((bits & static_cast<Word>(~kSign)) + kOne) & kSign) != 0;
  }
  static const char* name(Word bits) {
    if ((bits & kMantissa) != 0) return "NaN";
    return (bits & kSign) != 0 ? "-Inf" : "+Inf";
  }

  /// `count` is a multiple of what is looked at together.
  static bool any(const Word* words, std::size_t count) {
    const std::uint64_t sign = in_all_lanes(kSign, kBits);
    const std::uint64_t one = in_all_lanes(kOne, kBits);
    std::uint64_t seen[4] = {};
    for (std::size_t i = 0; i < count; i += 4 * kWordsAtOnce) {
      std::uint64_t lanes[4];
      std::memcpy(lanes, words + i, sizeof(lanes));
      for (std::size_t k = 0; k < 4; ++k) seen[k] |= (lanes[k] & ~sign) + one;
    }
    return ((seen[0] | seen[1] | seen[2] | seen[3]) & sign) != 0;
  }

  static std::optional<NonFinite> find(const void* data, std::size_t count) {
    constexpr std::size_t kStretch = 4096;  // words between two looks at what was seen
    const Word* words = static_cast<const Word*>(data);
    for (std::size_t begin = 0; begin < count; begin += kStretch) {
      const std::size_t length = std::min(kStretch, count - begin);
      if (length == kStretch && !any(words + begin, length)) continue;
      for (std::size_t i = begin; i < begin + length; ++i) {
        if (is_bad(words[i])) return NonFinite{i, name(words[i])};
      }
    }
    return std::nullopt;
  }
};

}  // namespace

std::optional<NonFinite> find_nonfinite(const void* data, std::size_t count, DType dtype) {
  switch (dtype) {
    case DType::f32:
      return Format<std::uint32_t, 23>::find(data, count);
    case DType::f64:
      return Format<std::uint64_t, 52>::find(data, count);
    case DType::f16:
      return Format<std::uint16_t, 10>::find(data, count);
    case DType::bf16:
      return Format<std::uint16_t, 7>::find(data, count);
    default:
      return std::nullopt;
  }
}

}  // namespace ferrule::communicator
