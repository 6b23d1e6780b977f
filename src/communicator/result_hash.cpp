#include "communicator/result_hash.hpp"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace ferrule::communicator {

std::uint64_t result_hash(const void* data, std::size_t bytes) { return XXH3_64bits(data, bytes); }

}  // namespace ferrule::communicator
