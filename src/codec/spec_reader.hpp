// Reading a codec's parameters; errors name the bad word and what is allowed.
#pragma once

#include <cstddef>
#include <initializer_list>
#include <string>
#include <string_view>

#include "ferrule/codec_spec.hpp"
#include "ferrule/status.hpp"

namespace ferrule::codec {

/// An error unless every key of the spec is one of `allowed`.
Status check_keys(const CodecSpec& spec, std::initializer_list<std::string_view> allowed);
/// The key `block`: a multiple of 32 from 32 to 1024; 128 where it is absent.
Result<std::size_t> read_block(const CodecSpec& spec);
/// The key `round`: whether it is "stochastic"; "nearest" where it is absent.
Result<bool> read_stochastic(const CodecSpec& spec);

}  // namespace ferrule::codec
