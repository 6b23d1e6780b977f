// The elements that contestants reduce. Whole numbers, so that a raw sum is exact whatever the order of
// additions, and cheap to make again, so that every rank can compute what the others put in.
// workers/torch_worker.py has the same formula.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace ferrule::compare {

/// Elements `first`, first + 1, ... of `rank`'s input: -128 ... 127.
void fill(std::uint32_t seed, int rank, std::uint64_t first, std::span<float> out);

/// What is to be expected of one piece of a sum.
struct Expected {
  std::span<double> sums;
  std::span<double> magnitudes;  ///< sum over ranks of the largest magnitude of the element's block
};

/// `first` is a multiple of `block`, and so is the piece's distance from the start of its tensor.
void expect(std::uint32_t seed, int ranks, std::size_t block, std::uint64_t first, const Expected& expected);

/// The same bytes give the same number; one byte changed, almost surely another.
std::uint64_t digest(std::span<const float> values);

}  // namespace ferrule::compare
