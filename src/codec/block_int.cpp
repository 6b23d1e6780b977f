// int2 ... int8: symmetric integers with one scale per block.
#include "codec/format/block_int.hpp"

#include <fmt/format.h>

#include <utility>

#include "codec/block_codec.hpp"
#include "codec/spec_reader.hpp"

namespace ferrule::codec {
namespace {

// docs/numerics.md derives it. Half a step (stochastic: a whole one) of amax / qmax; 2^-20 for the roundings
// of the ratio, 2^-7 for rounding the scale up to bf16, and the smallest bf16 as the floor of the scale.
ErrorBound bound_of(unsigned bits, bool stochastic) {
  const double steps = stochastic ? 1.0 : 0.5;
  const double largest = (1 << (bits - 1)) - 1;
  return {(steps / largest + 0x1p-20) * (1 + 0x1p-7), steps * 0x1p-133 + largest * 0x1p-150};
}

template <unsigned Bits>
std::unique_ptr<const Codec> make_width(std::size_t block, bool stochastic) {
  BlockCodecInfo info;
  info.shape = {FormatKind::block_int, Bits, block, stochastic};
  info.spec = fmt::format("int{}:block={}{}", Bits, block, stochastic ? ",round=stochastic" : "");
  info.bound = bound_of(Bits, stochastic);
  return make_block_codec<format::ScaledBlock<format::BlockInt<Bits>>>(std::move(info));
}

using Maker = std::unique_ptr<const Codec> (*)(std::size_t block, bool stochastic);
constexpr std::pair<const char*, Maker> kWidths[] = {
    {"int2", make_width<2>}, {"int3", make_width<3>}, {"int4", make_width<4>}, {"int5", make_width<5>},
    {"int6", make_width<6>}, {"int7", make_width<7>}, {"int8", make_width<8>},
};

Result<std::unique_ptr<const Codec>> make(const CodecSpec& spec) {
  FERRULE_RETURN_IF_ERROR(check_keys(spec, {"block", "round"}));
  const Result<std::size_t> block = read_block(spec);
  if (!block) return block.status();
  const Result<bool> stochastic = read_stochastic(spec);
  if (!stochastic) return stochastic.status();
  for (const auto& [name, maker] : kWidths) {
    if (spec.name == name) return maker(*block, *stochastic);
  }
  return Status(ErrorCode::internal, fmt::format("codec '{}' is not of the block_int family", spec.name));
}

}  // namespace

CodecFamily block_int_family() {
  CodecFamily family{{}, make};
  for (const auto& [name, maker] : kWidths) family.names.emplace_back(name);
  return family;
}

}  // namespace ferrule::codec
