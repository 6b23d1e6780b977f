#include "plan/layout.hpp"

#include <algorithm>

namespace ferrule::plan {
namespace {

using collectives::Collective;
using collectives::Contract;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

std::size_t sum(const Parts& parts, std::int32_t first, std::int32_t last) {
  std::size_t total = 0;
  for (std::int32_t rank = first; rank < last; ++rank) total += parts.count(rank);
  return total;
}

std::size_t received(const Parts& parts, std::int32_t world) {
  std::size_t total = 0;
  for (std::int32_t rank = 0; rank < world; ++rank) total += parts.recv_count(rank);
  return total;
}

// Of all_to_all, what this rank knows: what it sends and what it gets.
std::size_t chunk_count(const Contract& contract, std::int32_t rank, const Parts& parts,
                        std::uint32_t chunk) {
  const auto index = static_cast<std::int32_t>(chunk);
  if (contract.collective != Collective::all_to_all) return parts.count(index);
  const std::int32_t source = index / contract.world;
  const std::int32_t destination = index % contract.world;
  if (source == rank) return parts.count(destination);
  return destination == rank ? parts.recv_count(source) : 0;
}

}  // namespace

Extent extent_of(const Contract& contract, std::int32_t rank, const Parts& parts) {
  const std::int32_t world = contract.world;
  const bool root = rank == contract.root;
  switch (contract.collective) {
    case Collective::all_reduce:
      return {parts.each, parts.each, 0};
    case Collective::broadcast:
      return {root ? parts.each : 0, parts.each, 0};
    case Collective::reduce:
      return {parts.each, root ? parts.each : 0, 0};
    case Collective::reduce_scatter:
      return {sum(parts, 0, world), parts.count(rank), sum(parts, 0, rank)};
    case Collective::all_gather:
      return {parts.count(rank), sum(parts, 0, world), sum(parts, 0, rank)};
    case Collective::gather:
      return {parts.count(rank), root ? sum(parts, 0, world) : 0, root ? sum(parts, 0, rank) : 0};
    case Collective::scatter:
      return {root ? sum(parts, 0, world) : 0, parts.count(rank), root ? sum(parts, 0, rank) : 0};
    case Collective::all_to_all:
      return {sum(parts, 0, world), received(parts, world), 0};
    case Collective::barrier:
      break;
  }
  return {};
}

Layout Layout::of_shares(std::size_t count, std::uint32_t chunks, std::size_t block) {
  Layout layout;
  layout.count_ = count;
  layout.share_ = divide_up(divide_up(count, block), chunks) * block;
  layout.largest_ = layout.share_;
  return layout;
}

Layout Layout::of_parts(const Contract& contract, std::int32_t rank, const Parts& parts, std::size_t block) {
  Layout layout;
  std::size_t begin = 0;
  std::size_t input = 0;
  std::size_t output = 0;
  for (std::uint32_t chunk = 0; chunk < contract.chunks(); ++chunk) {
    const std::size_t count = chunk_count(contract, rank, parts, chunk);
    layout.places_.push_back({begin, count, input, output});
    begin += divide_up(count, block) * block;
    input += contract.brings(rank, chunk) ? count : 0;
    output += contract.gets(rank, chunk) ? count : 0;
    layout.largest_ = std::max(layout.largest_, divide_up(count, block) * block);
  }
  return layout;
}

Layout::Place Layout::place(std::uint32_t chunk) const {
  if (!places_.empty()) return places_[chunk];
  const std::size_t begin = std::min(count_, chunk * share_);
  return {begin, std::min(count_ - begin, share_), begin, begin};
}

Range Layout::slice(std::uint32_t chunk, std::uint32_t slice) const {
  const Place where = place(chunk);
  const std::size_t skipped = std::min(where.count, slice * slice_elements_);
  return {where.begin + skipped, std::min(where.count - skipped, slice_elements_)};
}

std::size_t Layout::input_begin(std::uint32_t chunk, std::uint32_t slice) const {
  const Place where = place(chunk);
  return where.input + std::min(where.count, slice * slice_elements_);
}

std::size_t Layout::output_begin(std::uint32_t chunk, std::uint32_t slice) const {
  const Place where = place(chunk);
  return where.output + std::min(where.count, slice * slice_elements_);
}

}  // namespace ferrule::plan
