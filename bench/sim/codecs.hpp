// The codecs of a collective, one for each level of the topology, and what their arithmetic costs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "codec/codec.hpp"

namespace ferrule::sim {

/// Nanoseconds a byte of uncompressed elements.
struct CodecRates {
  double encode = 0;  ///< of one plain term
  double decode = 0;  ///< of one encoded term
  double add = 0;     ///< each encoded term of a sum
  double hop = 0;     ///< decode, add the own input, encode
};

struct LevelCodec {
  std::shared_ptr<const codec::Codec> codec;
  CodecRates rates;
};

/// Innermost first, never empty. Levels beyond the last have the last.
using Codecs = std::vector<LevelCodec>;

inline std::size_t index_of_level(const Codecs& codecs, std::uint8_t level) {
  return std::min<std::size_t>(level, codecs.size() - 1);
}

/// "none/int4".
inline std::string text_of(const Codecs& codecs) {
  std::string text;
  for (const LevelCodec& one : codecs) text += (text.empty() ? "" : "/") + one.codec->spec();
  return text;
}

}  // namespace ferrule::sim
