// A list of codecs, one for each level of a topology: "none/int4".
#pragma once

#include <memory>
#include <vector>

#include "codec/codec.hpp"

namespace ferrule::codec {

/// From the innermost level; two at least. By itself, away from a topology, it encodes as its last one does,
/// whose bytes are those of the result.
std::unique_ptr<const Codec> make_level_list(std::vector<std::shared_ptr<const Codec>> levels);

}  // namespace ferrule::codec
