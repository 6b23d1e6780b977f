#include "codec/spec_reader.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>

#include "codec/format/planes.hpp"

namespace ferrule::codec {
namespace {

constexpr std::size_t kDefaultBlock = 128;

Status bad(const CodecSpec& spec, const std::string& why) {
  return {ErrorCode::invalid_argument, fmt::format("codec '{}': {}", spec.to_string(), why)};
}

}  // namespace

Status check_keys(const CodecSpec& spec, std::initializer_list<std::string_view> allowed) {
  for (const auto& [key, value] : spec.parameters) {
    if (std::find(allowed.begin(), allowed.end(), key) != allowed.end()) continue;
    const std::string choice =
        allowed.size() == 0 ? "it takes none" : fmt::format("it takes {}", fmt::join(allowed, ", "));
    return bad(spec, fmt::format("unknown key '{}' ({})", key, choice));
  }
  return {};
}

Result<std::size_t> read_block(const CodecSpec& spec) {
  const std::string* text = spec.find("block");
  if (text == nullptr) return kDefaultBlock;
  std::size_t block = 0;
  const char* end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, block);
  const bool number = error == std::errc() && stop == end;
  if (!number || block % format::kSmallestBlock != 0 || block < format::kSmallestBlock ||
      block > format::kLargestBlock) {
    return bad(spec, fmt::format("block '{}' is not a multiple of {} from {} to {}", *text,
                                 format::kSmallestBlock, format::kSmallestBlock, format::kLargestBlock));
  }
  return block;
}

Result<bool> read_stochastic(const CodecSpec& spec) {
  const std::string* text = spec.find("round");
  if (text == nullptr || *text == "nearest") return false;
  if (*text == "stochastic") return true;
  return bad(spec, fmt::format("round '{}' is neither 'nearest' nor 'stochastic'", *text));
}

}  // namespace ferrule::codec
