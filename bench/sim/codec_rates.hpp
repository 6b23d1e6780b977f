// What a codec's arithmetic costs on this machine.
#pragma once

#include "bench/sim/codecs.hpp"
#include "codec/codec.hpp"
#include "ferrule/types.hpp"

namespace ferrule::sim {

/// The best of a few runs over 256 KiB, one core; takes a few milliseconds. f32, f16 and bf16.
CodecRates measure_rates(const codec::Codec& codec, DType dtype);

}  // namespace ferrule::sim
