// The text form of a codec: name[:key=value[,key=value]...], e.g. "int4", "int4:block=128,round=stochastic",
// "bf16". Where a communicator takes a codec, "auto:" may stand in front: that codec where it is expected to
// be faster than raw, else raw.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule {

inline constexpr std::string_view kAutoCodec = "auto:";

constexpr bool is_auto_codec(std::string_view text) {
  return text.substr(0, kAutoCodec.size()) == kAutoCodec;
}
constexpr std::string_view without_auto(std::string_view text) {
  return is_auto_codec(text) ? text.substr(kAutoCodec.size()) : text;
}

/// The codecs of a text that names one for each level of a topology, innermost first: "none/int4" is exact
/// inside a node and 4 bits between nodes. The last one stands for all levels that are left. A text without
/// '/' is one codec.
inline std::vector<std::string_view> codec_levels(std::string_view text) {
  std::vector<std::string_view> levels;
  while (true) {
    const std::size_t slash = text.find('/');
    levels.push_back(text.substr(0, slash));
    if (slash == std::string_view::npos) return levels;
    text.remove_prefix(slash + 1);
  }
}

/// A parsed codec text. Which names and keys exist is decided by the codecs, not here; here only the grammar
/// is checked: names and keys are [a-z0-9_]+, values [A-Za-z0-9_.+-]+, no key twice, at most 256 characters.
struct CodecSpec {
  std::string name;
  std::vector<std::pair<std::string, std::string>> parameters;

  static Result<CodecSpec> parse(std::string_view text) {
    CodecSpec spec;
    const auto bad = [&](const std::string& why) {
      return Status(ErrorCode::invalid_argument, "codec '" + std::string(text.substr(0, 256)) + "': " + why +
                                                     " (expected name[:key=value,...])");
    };
    if (text.size() > 256) return bad("longer than 256 characters");
    const std::size_t colon = text.find(':');
    spec.name = text.substr(0, colon);
    if (!is_word(spec.name, "_")) return bad("the name must be lower-case letters, digits and _");
    if (colon == std::string_view::npos) return spec;
    std::string_view rest = text.substr(colon + 1);
    while (true) {
      const std::size_t comma = rest.find(',');
      const std::string_view pair = rest.substr(0, comma);
      const std::size_t equals = pair.find('=');
      if (equals == std::string_view::npos) return bad(std::string("'").append(pair) + "' has no '='");
      std::string key(pair.substr(0, equals));
      std::string value(pair.substr(equals + 1));
      if (!is_word(key, "_")) return bad(std::string("bad key '").append(key) + "'");
      if (!is_word(value, "_.+-ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
        return bad(std::string("bad value '").append(value) + "' of " + key);
      if (spec.find(key) != nullptr) return bad(std::string("key '").append(key) + "' stands twice");
      spec.parameters.emplace_back(std::move(key), std::move(value));
      if (comma == std::string_view::npos) return spec;
      rest = rest.substr(comma + 1);
    }
  }

  /// The value of a key, or null.
  const std::string* find(std::string_view key) const {
    for (const auto& [name_of, value] : parameters) {
      if (name_of == key) return &value;
    }
    return nullptr;
  }

  std::string to_string() const {
    std::string text = name;
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      text += (i == 0 ? ':' : ',') + parameters[i].first + '=' + parameters[i].second;
    }
    return text;
  }

 private:
  static bool is_word(std::string_view word, std::string_view also) {
    if (word.empty()) return false;
    for (const char c : word) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
      if (!plain && also.find(c) == std::string_view::npos) return false;
    }
    return true;
  }
};

}  // namespace ferrule
