// Texts of codecs: the grammar, and the families' own reading of their parameters.
#include "codec/codec.hpp"
#include "fuzz/input.hpp"
#include "fuzz/require.hpp"

namespace {

using ferrule::CodecSpec;

void check_codec(std::string_view text) {
  const auto codec = ferrule::codec::make_codec(text);
  if (!codec.ok()) return FERRULE_REQUIRE(!codec.status().text().empty());
  const std::string& canonical = (*codec)->spec();
  const auto again = ferrule::codec::make_codec(canonical);
  FERRULE_REQUIRE_OR(again.ok(), canonical);
  FERRULE_REQUIRE((*again)->spec() == canonical);
  FERRULE_REQUIRE((*again)->block() == (*codec)->block() && (*codec)->block() > 0);
  FERRULE_REQUIRE((*codec)->encoded_bytes(0, ferrule::DType::f32) == 0);
}

}  // namespace

// A text names one codec, whose parts it can be taken apart into and put together from, or a list with one
// for each level, which is no such text.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const std::string_view text = ferrule::fuzz::Input(data, bytes).rest();
  check_codec(text);
  const auto spec = CodecSpec::parse(text);
  if (spec.ok()) {
    FERRULE_REQUIRE_OR(spec->to_string() == text, spec->to_string());
    return 0;
  }
  FERRULE_REQUIRE(spec.status().code() == ferrule::ErrorCode::invalid_argument);
  if (text.find('/') == std::string_view::npos) FERRULE_REQUIRE(!ferrule::codec::make_codec(text).ok());
  return 0;
}
