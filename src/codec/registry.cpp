#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codec/codec.hpp"
#include "codec/format/noise.hpp"
#include "codec/level_list.hpp"

namespace ferrule::codec {

#include "codec_table.inc"

namespace {

const std::vector<CodecFamily>& table() {
#define FERRULE_FAMILY(word) word##_family(),
  static const std::vector<CodecFamily> kFamilies = {FERRULE_REGISTERED_FAMILY(FERRULE_FAMILY)};
#undef FERRULE_FAMILY
  return kFamilies;
}

}  // namespace

std::span<const CodecFamily> families() { return table(); }

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const CodecFamily& family : families()) {
    names.insert(names.end(), family.names.begin(), family.names.end());
  }
  return names;
}

Result<std::unique_ptr<const Codec>> make_codec(const CodecSpec& spec) {
  for (const CodecFamily& family : families()) {
    if (std::find(family.names.begin(), family.names.end(), spec.name) != family.names.end()) {
      return family.make(spec);
    }
  }
  return Status(ErrorCode::invalid_argument,
                fmt::format("unknown codec '{}' (there are {})", spec.name, fmt::join(codec_names(), ", ")));
}

Result<std::unique_ptr<const Codec>> make_codec(std::string_view text) {
  constexpr std::size_t kMostLevels = 8;
  const std::vector<std::string_view> texts = codec_levels(text);
  if (texts.size() > kMostLevels) {
    return Status(ErrorCode::invalid_argument, fmt::format("codec '{}': {} levels; at most {}",
                                                           text.substr(0, 256), texts.size(), kMostLevels));
  }
  std::vector<std::shared_ptr<const Codec>> levels;
  for (const std::string_view level : texts) {
    const Result<CodecSpec> spec = CodecSpec::parse(level);
    if (!spec) return spec.status();
    Result<std::unique_ptr<const Codec>> made = make_codec(*spec);
    if (!made || texts.size() == 1) return made;
    // Levels of the same codec share it: sums of theirs need no step between.
    std::shared_ptr<const Codec> codec = std::move(made).value();
    for (const auto& other : levels) {
      if (other->spec() == codec->spec()) codec = other;
    }
    levels.push_back(std::move(codec));
  }
  return make_level_list(std::move(levels));
}

std::uint64_t noise_key(std::uint64_t seed, std::uint64_t step, std::uint64_t tensor, std::uint64_t rank) {
  std::uint64_t key = format::splitmix64(seed);
  for (const std::uint64_t part : {step, tensor, rank}) key = format::splitmix64(key ^ part);
  return key;
}

}  // namespace ferrule::codec
