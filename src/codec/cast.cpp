// bf16 and fp16: 16-bit floats.
#include "codec/format/cast.hpp"

#include <fmt/format.h>

#include "codec/block_codec.hpp"
#include "codec/spec_reader.hpp"

namespace ferrule::codec {
namespace {

// bf16 has no scale to share. Cutting at 64 bytes of its elements keeps slices aligned.
constexpr std::size_t kBf16Block = 32;

std::unique_ptr<const Codec> make_bf16() {
  BlockCodecInfo info;
  info.shape = {FormatKind::bf16, 16, kBf16Block, false};
  info.spec = "bf16";
  // Half a unit of 8 bits; the values that saturate stay within it too. Floor: half of the smallest denormal.
  info.bound = {0x1p-8, 0x1p-134};
  return make_block_codec<format::ScaledBlock<format::Bf16Cast>>(std::move(info));
}

std::unique_ptr<const Codec> make_fp16(std::size_t block) {
  BlockCodecInfo info;
  info.shape = {FormatKind::fp16, 16, block, false};
  info.spec = fmt::format("fp16:block={}", block);
  // Half a unit of 11 bits. Floor: an average's scale may be a denormal, see docs/numerics.md.
  info.bound = {0x1p-11, 0x1p-134};
  return make_block_codec<format::ScaledBlock<format::Fp16Cast>>(std::move(info));
}

Result<std::unique_ptr<const Codec>> make(const CodecSpec& spec) {
  if (spec.name == "bf16") {
    FERRULE_RETURN_IF_ERROR(check_keys(spec, {}));
    return make_bf16();
  }
  FERRULE_RETURN_IF_ERROR(check_keys(spec, {"block"}));
  const Result<std::size_t> block = read_block(spec);
  if (!block) return block.status();
  return make_fp16(*block);
}

}  // namespace

CodecFamily cast_family() { return {{"bf16", "fp16"}, make}; }

}  // namespace ferrule::codec
