// topk: the largest magnitudes of each block, as bf16 or as 8-bit integers with a scale.
#include "codec/format/block_topk.hpp"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>

#include "codec/block_codec.hpp"
#include "codec/format/block_int.hpp"
#include "codec/format/cast.hpp"
#include "codec/spec_reader.hpp"

namespace ferrule::codec {
namespace {

constexpr std::size_t kDefaultBlock = 1024;
constexpr std::size_t kDefaultShare = 64;  // one of so many elements

static_assert(format::kLargestTopKBlock <= kLargestTile);

Status bad(const CodecSpec& spec, const std::string& why) {
  return {ErrorCode::invalid_argument, fmt::format("codec '{}': {}", spec.to_string(), why)};
}

/// The whole text as a number.
template <class Number>
bool read_number(const std::string& text, Number& number) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc() && stop == end;
}

Result<std::size_t> read_topk_block(const CodecSpec& spec) {
  const std::string* text = spec.find("block");
  if (text == nullptr) return kDefaultBlock;
  std::size_t block = 0;
  if (read_number(*text, block) && std::has_single_bit(block) && block >= format::kSmallestTopKBlock &&
      block <= format::kLargestTopKBlock) {
    return block;
  }
  return bad(spec, fmt::format("block '{}' is not a power of two from {} to {}", *text,
                               format::kSmallestTopKBlock, format::kLargestTopKBlock));
}

// '/' stands between the codecs of a list, so a share is a decimal number.
Result<std::size_t> kept_by_ratio(const CodecSpec& spec, const std::string& text, std::size_t block) {
  double ratio = 0;
  if (!read_number(text, ratio) || !(ratio > 0 && ratio <= 0.5)) {
    return bad(spec, fmt::format("ratio '{}' is not a decimal number above 0, and at most 0.5 (write "
                                 "0.015625 to keep 1 of 64)",
                                 text));
  }
  const auto kept = static_cast<std::size_t>(std::lround(ratio * static_cast<double>(block)));
  return kept == 0 ? std::size_t{1} : kept;
}

Result<std::size_t> read_kept(const CodecSpec& spec, std::size_t block) {
  const std::string* number = spec.find("k");
  const std::string* ratio = spec.find("ratio");
  if (number != nullptr && ratio != nullptr) return bad(spec, "k and ratio say the same: give one of them");
  if (ratio != nullptr) return kept_by_ratio(spec, *ratio, block);
  if (number == nullptr) return block / kDefaultShare;
  std::size_t kept = 0;
  if (read_number(*number, kept) && kept >= 1 && kept <= block / 2) return kept;
  return bad(spec, fmt::format("k '{}' is not a number from 1 to {}, half of the block", *number, block / 2));
}

Result<bool> read_int8(const CodecSpec& spec) {
  const std::string* text = spec.find("value");
  if (text == nullptr || *text == "bf16") return false;
  if (*text == "int8") return true;
  return bad(spec, fmt::format("value '{}' is neither 'bf16' nor 'int8'", *text));
}

// What is not kept is off by its magnitude, which may be that of the block's largest; values are off by far
// less. The floors are those of the values' formats (cast.cpp, block_int.cpp).
ErrorBound bound_of(bool int8) { return {1.0, int8 ? 0x1p-134 + 127 * 0x1p-150 : 0x1p-134}; }

Result<std::unique_ptr<const Codec>> make(const CodecSpec& spec) {
  FERRULE_RETURN_IF_ERROR(check_keys(spec, {"k", "ratio", "block", "value"}));
  const Result<std::size_t> block = read_topk_block(spec);
  if (!block) return block.status();
  const Result<std::size_t> kept = read_kept(spec, *block);
  if (!kept) return kept.status();
  const Result<bool> int8 = read_int8(spec);
  if (!int8) return int8.status();
  BlockCodecInfo info;
  info.shape = {FormatKind::topk, *int8 ? 8u : 16u, *block, false, *kept};
  info.spec = fmt::format("topk:k={},block={},value={}", *kept, *block, *int8 ? "int8" : "bf16");
  info.bound = bound_of(*int8);
  if (*int8) return make_block_codec<format::BlockTopK<format::BlockInt<8>>>(std::move(info));
  return make_block_codec<format::BlockTopK<format::Bf16Cast>>(std::move(info));
}

}  // namespace

CodecFamily block_topk_family() { return {{"topk"}, make}; }

}  // namespace ferrule::codec
