#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "codec/codec.hpp"
#include "codec/format/noise.hpp"

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
  const Result<CodecSpec> spec = CodecSpec::parse(text);
  if (!spec) return spec.status();
  return make_codec(*spec);
}

std::uint64_t noise_key(std::uint64_t seed, std::uint64_t step, std::uint64_t tensor, std::uint64_t rank) {
  std::uint64_t key = format::splitmix64(seed);
  for (const std::uint64_t part : {step, tensor, rank}) key = format::splitmix64(key ^ part);
  return key;
}

}  // namespace ferrule::codec
