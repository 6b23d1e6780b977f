// A codec whose arithmetic is done by the kernels, so that everything that tests codecs can test them.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "codec/codec.hpp"

namespace ferrule::cuda::testing {

/// Encodes and decodes with the kernels of `codec`: in the emulator, or on a GPU (device_memory.hpp). A
/// kernel's error, or a fault that the emulator found, is a failed test.
std::unique_ptr<const codec::Codec> on_device(std::shared_ptr<const codec::Codec> codec);

}  // namespace ferrule::cuda::testing
