// Input data that every rank can work out for every other rank: value = f(seed, rank, index). So the oracle
// needs no communication, and a library that mixes up ranks or elements cannot fool it.
#pragma once

#include <cstdint>
#include <span>

#include "ferrule/types.hpp"

namespace ferrule::bench {

enum class DataKind {
  normal,   ///< standard normal values, as gradients are roughly; integers get small whole numbers
  integer,  ///< small whole numbers in any type, whose sums are exact in any order
};

/// What decides the data of all ranks.
struct DataSpec {
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  DataKind kind = DataKind::normal;
  std::uint64_t seed = 1;
  int ranks = 1;
};

/// Elements [first, first + out.size()) of rank `rank`, exactly as its tensor holds them. Sums of integers
/// over all ranks do not overflow; factors of a product are powers of two, so that products are exact.
void generate(const DataSpec& spec, int rank, std::uint64_t first, std::span<double> out);

}  // namespace ferrule::bench
