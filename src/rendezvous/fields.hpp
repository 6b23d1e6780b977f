// A list of byte strings as one: u32 count, then for each u32 length and bytes, little endian.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule::rendezvous {

std::string pack(const std::vector<std::string>& fields);
/// `corrupt` unless the bytes are exactly a packed list.
Result<std::vector<std::string>> unpack(std::string_view bytes);

}  // namespace ferrule::rendezvous
