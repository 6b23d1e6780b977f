// The two rounds of `direct`, which some other collectives have one of. Chunk r belongs to rank r.
#pragma once

#include <cstdint>

#include "collectives/builder.hpp"

namespace ferrule::collectives {

/// The chunk that a rank owns.
constexpr std::uint32_t chunk_of(std::int32_t owner) { return static_cast<std::uint32_t>(owner); }

/// Sends the own contribution to every owner, and adds all contributions to the own chunk, in rank order and
/// the own one as it is. Rank r begins with r+1 and goes round, so that at any time each rank is the target
/// of about one sender.
void add_contributions(Builder& builder, std::int32_t rank, std::int32_t world);

/// Sends slot `own`, the own chunk, to all, and decodes all chunks: the own one from the bytes that the
/// others get.
void spread(Builder& builder, std::int32_t rank, std::int32_t world, std::uint32_t own);

}  // namespace ferrule::collectives
