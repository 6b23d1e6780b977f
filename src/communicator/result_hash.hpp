// A 64-bit hash of a result, at the speed of memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace ferrule::communicator {

/// XXH3 of the bytes. Made to see accidents, not attacks.
std::uint64_t result_hash(const void* data, std::size_t bytes);

}  // namespace ferrule::communicator
