// A warp's share of a call: whole blocks, at most 1024 elements, 32 in each lane.
//
// A block of B elements belongs to B / 32 lanes. With c = 4 j + k, where j is the lane's number within its
// block and k = 0 .. 3, the lane holds the elements m * B / 8 + c for m = 0 .. 7: a row m is B / 2 contiguous
// bytes of fp32, four elements a lane. That is the layout in which codes are packed without an exchange
// between lanes: see codes.cuh.
#pragma once

#include "cuda/elements.cuh"

namespace ferrule::cuda {

inline constexpr unsigned kRows = 8;
inline constexpr unsigned kTileElements = kRows * 4 * kWarpLanes;
inline constexpr unsigned kWarps = 4;  ///< of a thread block; they never wait for each other

/// Blocks of a tile, for blocks of `block` elements (a multiple of 32, at most 1024).
constexpr unsigned blocks_of_tile(unsigned block) { return kWarpLanes / (block / kWarpLanes); }

struct Tile {
  std::size_t first = 0;        ///< element of the call
  std::size_t first_block = 0;  ///< block of the call
  unsigned count = 0;           ///< elements; 0: this warp has nothing to do
  unsigned block = 0;           ///< elements of a full block
  unsigned full_blocks = 0;     ///< of this tile
  unsigned tail = 0;            ///< elements of the block that is not full, which is the call's last
  // The lane's part.
  unsigned my_block = 0;  ///< within the tile
  unsigned column = 0;    ///< 4 j
  unsigned my_count = 0;  ///< elements of the lane's block: block, tail or 0

  FERRULE_DEVICE unsigned row_stride() const { return block / kRows; }
  /// Element within the lane's block.
  FERRULE_DEVICE unsigned element(unsigned row) const { return row * row_stride() + column; }
  /// Element within the tile.
  FERRULE_DEVICE unsigned in_tile(unsigned row) const { return my_block * block + element(row); }
  /// How many of the four elements there are.
  FERRULE_DEVICE unsigned available(unsigned row) const {
    const unsigned at = element(row);
    if (at >= my_count) return 0;
    return my_count - at < 4 ? my_count - at : 4;
  }
  FERRULE_DEVICE bool is_full() const { return my_count == block; }
};

FERRULE_DEVICE Tile tile_of_warp(std::size_t count, unsigned block) {
  Tile tile;
  const unsigned blocks = blocks_of_tile(block);
  const std::size_t number = std::size_t{blockIdx.x} * kWarps + threadIdx.x / kWarpLanes;
  tile.block = block;
  tile.first_block = number * blocks;
  tile.first = tile.first_block * block;
  if (tile.first >= count) return tile;
  const std::size_t left = count - tile.first;
  tile.count = left < blocks * block ? static_cast<unsigned>(left) : blocks * block;
  tile.full_blocks = tile.count / block;
  tile.tail = tile.count % block;
  const unsigned lanes = block / kWarpLanes;
  tile.my_block = lane_index() / lanes;
  tile.column = lane_index() % lanes * 4;
  if (tile.my_block < tile.full_blocks) {
    tile.my_count = block;
  } else if (tile.my_block == tile.full_blocks) {
    tile.my_count = tile.tail;
  }
  return tile;
}

/// The lane's values.
using Values = float[kRows][4];

/// Adding to -0 keeps every value, -0 and +0 too; so the first term of a sum needs no code of its own.
FERRULE_DEVICE void start_sum(Values& x) {
  FERRULE_UNROLL
  for (unsigned m = 0; m < kRows; ++m) {
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) x[m][k] = -0.0f;
  }
}

/// visit(m, x[m]) for every row, in code for one row only: registers cannot be indexed, so the rows go round.
/// For what is rare: eight times the moves, an eighth of the instructions.
template <class Visitor>
FERRULE_DEVICE void for_each_row_rolled(Values& x, const Visitor& visit) {
  FERRULE_ROLLED
  for (unsigned m = 0; m < kRows; ++m) {
    visit(m, x[0]);
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) {
      const float first = x[0][k];
      FERRULE_UNROLL
      for (unsigned row = 0; row + 1 < kRows; ++row) x[row][k] = x[row + 1][k];
      x[kRows - 1][k] = first;
    }
  }
}

/// Whether the warp may take four elements of each row at once.
template <class Type>
FERRULE_DEVICE bool in_fours(const void* data, const Tile& tile) {
  return is_aligned<Type>(data) && tile.tail == 0;
}

/// x += elements of the call that begins at `data`. Eight loads in flight where the tile is full and aligned.
template <class Type>
FERRULE_DEVICE void add_elements(const void* data, const Tile& tile, Values& x) {
  const auto* from = static_cast<const typename Type::Storage*>(data) + tile.first;
  if (!in_fours<Type>(data, tile)) {
    for_each_row_rolled(x, [&](unsigned m, float(&row)[4]) {
      float addend[4] = {-0.0f, -0.0f, -0.0f, -0.0f};
      load_some<Type>(from + tile.in_tile(m), tile.available(m), addend);
      FERRULE_UNROLL
      for (unsigned k = 0; k < 4; ++k) row[k] += addend[k];
    });
    return;
  }
  if (!tile.is_full()) return;  // a lane without a block
  float addend[kRows][4];
  FERRULE_UNROLL
  for (unsigned m = 0; m < kRows; ++m) load4<Type>(from + tile.in_tile(m), addend[m]);
  FERRULE_UNROLL
  for (unsigned m = 0; m < kRows; ++m) {
    FERRULE_UNROLL
    for (unsigned k = 0; k < 4; ++k) x[m][k] += addend[m][k];
  }
}

template <class Type>
FERRULE_DEVICE void store_elements(Values& x, const Tile& tile, void* data) {
  auto* to = static_cast<typename Type::Storage*>(data) + tile.first;
  if (!in_fours<Type>(data, tile)) {
    for_each_row_rolled(x, [&](unsigned m, float(&row)[4]) {
      store_some<Type>(to + tile.in_tile(m), tile.available(m), row);
    });
    return;
  }
  if (!tile.is_full()) return;
  FERRULE_UNROLL
  for (unsigned m = 0; m < kRows; ++m) store4<Type>(to + tile.in_tile(m), x[m]);
}

FERRULE_DEVICE void add_plain(const void* data, DType dtype, const Tile& tile, Values& x) {
  if (dtype == DType::f32) return add_elements<F32>(data, tile, x);
  if (dtype == DType::f16) return add_elements<F16>(data, tile, x);
  add_elements<Bf16>(data, tile, x);
}

FERRULE_DEVICE void store_plain(Values& x, DType dtype, const Tile& tile, void* data) {
  if (dtype == DType::f32) return store_elements<F32>(x, tile, data);
  if (dtype == DType::f16) return store_elements<F16>(x, tile, data);
  store_elements<Bf16>(x, tile, data);
}

}  // namespace ferrule::cuda
