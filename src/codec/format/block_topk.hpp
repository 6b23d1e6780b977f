// Block top-k: of each block the `kept` largest magnitudes are sent, with their positions; everything else
// decodes to zero. The size is a function of the number of elements alone. docs/wire_format.md has the
// layout.
//
// Order: NaN > Inf > finite, then the lower position; so what is kept never depends on how it was found. A
// block that holds a NaN or Inf is sent as kept NaNs, and decodes to NaN throughout. So does a block whose
// positions do not ascend: a hostile peer can spoil a block, which GradScaler and the like then see, but not
// write outside of it, nor make two devices disagree.
#pragma once

#include "codec/format/float16.hpp"
#include "codec/format/scaled_block.hpp"

namespace ferrule::codec::format {

inline constexpr std::size_t kSmallestTopKBlock = 256;
inline constexpr std::size_t kLargestTopKBlock = 4096;
/// Half of a block: beyond that a cast of all elements is not much larger.
inline constexpr std::size_t kMostKept = kLargestTopKBlock / 2;

/// How many elements of a block are kept, and how their positions are written: as numbers of index_bits, or
/// as one bit for each element of the block where that is smaller.
struct TopKLayout {
  std::size_t kept = 0;
  unsigned index_bits = 0;
  bool bitmap = false;
  std::size_t position_bytes = 0;

  /// A block of `count` elements, of a codec that keeps `kept_of_block` of each full one. The last block
  /// keeps the same share, rounded up.
  FERRULE_HD static TopKLayout of(std::size_t count, std::size_t block, std::size_t kept_of_block) {
    TopKLayout layout;
    layout.kept = (kept_of_block * count + block - 1) / block;
    while ((std::size_t{1} << layout.index_bits) < count) ++layout.index_bits;
    const std::size_t numbers = layout.kept * layout.index_bits;
    layout.bitmap = count < numbers;
    layout.position_bytes = ((layout.bitmap ? count : numbers) + 7) / 8;
    return layout;
  }
};

/// Which elements are kept: all whose magnitude is above `threshold`, and the first `equals` of those that
/// have it.
struct TopKChoice {
  std::uint32_t threshold = 0;  ///< magnitude bits
  std::size_t equals = 0;
};

/// Magnitude bits of at least `bound`.
FERRULE_HD inline std::size_t count_reaching(const float* x, std::size_t count, std::uint32_t bound) {
  std::uint32_t reach = 0;
  for (std::size_t i = 0; i < count; ++i) reach += magnitude_bits(x[i]) >= bound ? 1u : 0u;
  return reach;
}

/// Bit by bit the largest threshold that `kept` elements reach; it may stop at one that exactly they do.
FERRULE_HD inline TopKChoice choose_largest(const float* x, std::size_t count, std::size_t kept) {
  TopKChoice choice;
  for (std::uint32_t bit = 1u << 30; bit != 0; bit >>= 1) {
    const std::size_t reach = count_reaching(x, count, choice.threshold | bit);
    if (reach >= kept) choice.threshold |= bit;
    if (reach == kept) break;
  }
  choice.equals = kept - count_reaching(x, count, choice.threshold + 1);
  return choice;
}

/// The positions of what was chosen, in ascending order.
FERRULE_HD inline void list_positions(const float* x, std::size_t count, TopKChoice choice,
                                      std::uint16_t* positions) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint32_t magnitude = magnitude_bits(x[i]);
    if (magnitude < choice.threshold) continue;
    if (magnitude == choice.threshold) {
      if (choice.equals == 0) continue;
      --choice.equals;
    }
    *positions++ = static_cast<std::uint16_t>(i);
  }
}

/// Positions must ascend and be below the block's count.
FERRULE_HD inline void pack_positions(const std::uint16_t* positions, const TopKLayout& layout,
                                      std::byte* out) {
  if (layout.bitmap) {
    std::memset(out, 0, layout.position_bytes);
    for (std::size_t j = 0; j < layout.kept; ++j) {
      std::byte* at = out + positions[j] / 8;
      store_byte(at, load_byte(at) | (1u << (positions[j] % 8)));
    }
    return;
  }
  std::uint32_t pending = 0;
  unsigned pending_bits = 0;
  for (std::size_t j = 0; j < layout.kept; ++j) {
    pending |= static_cast<std::uint32_t>(positions[j]) << pending_bits;
    pending_bits += layout.index_bits;
    for (; pending_bits >= 8; pending_bits -= 8, pending >>= 8) store_byte(out++, pending);
  }
  if (pending_bits != 0) store_byte(out, pending);
}

FERRULE_HD inline bool unpack_bitmap(const std::byte* in, const TopKLayout& layout, std::size_t count,
                                     std::uint16_t* positions) {
  std::size_t found = 0;
  for (std::size_t i = 0; i < 8 * layout.position_bytes; ++i) {
    if (((load_byte(in + i / 8) >> (i % 8)) & 1u) == 0) continue;
    if (i >= count || found == layout.kept) return false;
    positions[found++] = static_cast<std::uint16_t>(i);
  }
  return found == layout.kept;
}

/// Returns whether the positions ascend, are below `count`, and are `kept` in number. Bits behind the last
/// number are not looked at.
FERRULE_HD inline bool unpack_positions(const std::byte* in, const TopKLayout& layout, std::size_t count,
                                        std::uint16_t* positions) {
  if (layout.bitmap) return unpack_bitmap(in, layout, count, positions);
  const std::uint32_t mask = (1u << layout.index_bits) - 1u;
  std::uint32_t pending = 0;
  unsigned pending_bits = 0;
  std::uint32_t lowest = 0;  // that the next position may be
  bool valid = true;
  for (std::size_t j = 0; j < layout.kept; ++j) {
    for (; pending_bits < layout.index_bits; pending_bits += 8) pending |= load_byte(in++) << pending_bits;
    const std::uint32_t position = pending & mask;
    pending >>= layout.index_bits;
    pending_bits -= layout.index_bits;
    valid = valid && position >= lowest && position < count;
    lowest = position + 1;
    positions[j] = static_cast<std::uint16_t>(position);
  }
  return valid;
}

/// The block format. Values are codes of Element (Bf16Cast, BlockInt<8>), in the order of their positions and
/// behind them; where Element has a scale, it goes by the largest magnitude.
template <class Element>
struct BlockTopK {
  static constexpr std::size_t kHeaderBytes = Element::kHeaderBytes;
  static constexpr bool kScaled = kHeaderBytes != 0;
  static constexpr std::size_t kValueBytes = Element::kBits / 8;
  static_assert(kValueBytes == 1 || kValueBytes == 2);

  FERRULE_HD static std::size_t payload_bytes(std::size_t count, std::size_t block, std::size_t kept) {
    const TopKLayout layout = TopKLayout::of(count, block, kept);
    return layout.position_bytes + layout.kept * kValueBytes;
  }

  FERRULE_HD static void encode(const float* x, const BlockAt& at, std::byte* header, std::byte* payload) {
    const TopKLayout layout = TopKLayout::of(at.count, at.block, at.kept);
    std::uint16_t positions[kMostKept];
    list_positions(x, at.count, choose_largest(x, at.count, layout.kept), positions);
    std::uint32_t amax = 0;
    for (std::size_t j = 0; j < layout.kept; ++j) {
      const std::uint32_t magnitude = magnitude_bits(x[positions[j]]);
      amax = magnitude > amax ? magnitude : amax;
    }
    if (amax >= kInfinityBits) return encode_nan(layout, header, payload);
    pack_positions(positions, layout, payload);
    const auto scale = Element::scale_for(amax);
    if constexpr (kScaled) store_u16(header, scale.wire);
    std::byte* values = payload + layout.position_bytes;
    for (std::size_t j = 0; j < layout.kept; ++j) {
      store_value(values + kValueBytes * j, Element::encode(x[positions[j]], scale, 0.0f));
    }
  }

  FERRULE_HD static bool decode(const std::byte* header, const std::byte* payload, const BlockAt& at,
                                float* out) {
    std::uint16_t positions[kMostKept];
    float values[kMostKept];
    const bool finite = read(header, payload, at, positions, values);
    const float rest = finite ? 0.0f : canonical_nan();
    for (std::size_t i = 0; i < at.count; ++i) out[i] = rest;
    const std::size_t kept = finite ? TopKLayout::of(at.count, at.block, at.kept).kept : 0;
    for (std::size_t j = 0; j < kept; ++j) out[positions[j]] = values[j];
    return finite;
  }

  FERRULE_HD static bool add(const std::byte* header, const std::byte* payload, const BlockAt& at, float* x) {
    std::uint16_t positions[kMostKept];
    float values[kMostKept];
    const bool finite = read(header, payload, at, positions, values);
    if (!finite) {
      for (std::size_t i = 0; i < at.count; ++i) x[i] = canonical_nan();
      return false;
    }
    const std::size_t kept = TopKLayout::of(at.count, at.block, at.kept).kept;
    for (std::size_t j = 0; j < kept; ++j) x[positions[j]] = x[positions[j]] + values[j];
    return true;
  }

  /// What was sent. False if positions or values are bad: the block is NaN throughout.
  FERRULE_HD static bool read(const std::byte* header, const std::byte* payload, const BlockAt& at,
                              std::uint16_t* positions, float* values) {
    const TopKLayout layout = TopKLayout::of(at.count, at.block, at.kept);
    bool finite = unpack_positions(payload, layout, at.count, positions);
    const float scale = read_scale(header, at);
    const std::byte* codes = payload + layout.position_bytes;
    for (std::size_t j = 0; j < layout.kept; ++j) {
      values[j] = value_of(codes + kValueBytes * j, scale, at.divisor);
      finite = finite && is_finite(values[j]);
    }
    return finite;
  }

  /// Already divided, for formats with a scale: value_of() needs one multiplication.
  FERRULE_HD static float read_scale(const std::byte* header, const BlockAt& at) {
    if constexpr (!kScaled) return 1.0f;
    const float scale = bf16_to_f32(load_u16(header));
    return is_finite(scale) ? scale / at.divisor : canonical_nan();
  }

  FERRULE_HD static float value_of(const std::byte* code, float scale, float divisor) {
    const float value = Element::decode(kValueBytes == 2 ? load_u16(code) : load_byte(code), scale);
    return kScaled || divisor == 1.0f ? value : value / divisor;
  }

  FERRULE_HD static void store_value(std::byte* at, std::uint32_t code) {
    kValueBytes == 2 ? store_u16(at, code) : store_byte(at, code);
  }

  /// The first positions, and values that are NaN.
  FERRULE_HD static void encode_nan(const TopKLayout& layout, std::byte* header, std::byte* payload) {
    std::uint16_t positions[kMostKept];
    for (std::size_t j = 0; j < layout.kept; ++j) positions[j] = static_cast<std::uint16_t>(j);
    pack_positions(positions, layout, payload);
    if constexpr (kScaled) store_u16(header, kBf16Nan);
    std::byte* values = payload + layout.position_bytes;
    for (std::size_t j = 0; j < layout.kept; ++j) {
      store_value(values + kValueBytes * j, kScaled ? 0u : std::uint32_t{kBf16Nan});
    }
  }
};

}  // namespace ferrule::codec::format
