// A 64-bit digest of a result's bytes, to compare results between ranks without sending them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ferrule::bench {

/// Depends on every bit and on the length. Any single changed bit changes it; other differences collide with
/// a probability of about 2^-64. Not for adversaries.
std::uint64_t digest(std::span<const std::byte> bytes);

}  // namespace ferrule::bench
