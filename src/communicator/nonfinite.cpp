#include "communicator/nonfinite.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace ferrule::communicator {
namespace {

// An exponent of all ones plus one in its lowest bit carries into the sign bit: two operations a word,
// without branches, so that compilers make vectors of it on every target.
template <class Word, int kMantissaBits>
struct Format {
  static constexpr Word kSign = static_cast<Word>(Word{1} << (8 * sizeof(Word) - 1));
  static constexpr Word kOne = static_cast<Word>(Word{1} << kMantissaBits);
  static constexpr Word kMantissa = static_cast<Word>(kOne - 1);

  static Word carried(Word bits) { return static_cast<Word>((bits & static_cast<Word>(~kSign)) + kOne); }
  static const char* name(Word bits) {
    if ((bits & kMantissa) != 0) return "NaN";
    return (bits & kSign) != 0 ? "-Inf" : "+Inf";
  }

  static bool any(const Word* words, std::size_t count) {
    Word seen = 0;
    for (std::size_t i = 0; i < count; ++i) seen = static_cast<Word>(seen | carried(words[i]));
    return (seen & kSign) != 0;
  }

  static std::optional<NonFinite> find(const void* data, std::size_t count) {
    constexpr std::size_t kStretch = 4096;  // words between two looks at what was seen
    const Word* words = static_cast<const Word*>(data);
    for (std::size_t begin = 0; begin < count; begin += kStretch) {
      const std::size_t length = std::min(kStretch, count - begin);
      if (!any(words + begin, length)) continue;
      for (std::size_t i = begin; i < begin + length; ++i) {
        if ((carried(words[i]) & kSign) != 0) return NonFinite{i, name(words[i])};
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
