// The tensors of one case: `repeat` all-reduces of `count` elements each, on memory of their own, so that
// in place no sum is summed again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "bench/compare/workers/worker.hpp"

namespace ferrule::compare {

/// fp32 elements in pages of their own, which go back to the system when this is freed.
class Pages {
 public:
  Pages() = default;
  ~Pages() { free(); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  Status allocate(std::size_t count);
  void free();
  std::span<float> values() const { return {data_, count_}; }

 private:
  float* data_ = nullptr;
  std::size_t count_ = 0;
};

/// What this rank found in its share of a result, and of all of it.
struct Judgement {
  std::uint64_t checked = 0;
  std::uint64_t wrong = 0;  ///< elements beyond their bound
  double max_error = 0;
  double error_squares = 0;
  double value_squares = 0;
  std::uint64_t digest = 0;      ///< of the whole result
  std::uint64_t wire_bytes = 0;  ///< sent by this rank for one all-reduce

  std::string json() const;
};

class Tensors {
 public:
  Tensors(int rank, int ranks) : rank_(rank), ranks_(ranks) {}

  Status prepare(std::size_t bytes, std::size_t repeat, std::uint32_t seed);
  void release();

  /// Puts the input where the all-reduces read it. Not timed.
  void restore(bool in_place);
  /// `repeat` all-reduces, one after the other.
  Status reduce(Contestant& contestant, bool in_place);
  /// Judges the result of the last reduce(): this rank's share of the elements, and a digest of all. The
  /// shares of all ranks cover everything, and equal digests extend the verdict to every rank.
  Result<Judgement> judge(const Contestant& contestant) const;

 private:
  Status judge_piece(const Contestant& contestant, std::size_t first, std::size_t count,
                     Judgement& judgement) const;
  Status judge_share(const Contestant& contestant, std::size_t tensor, Judgement& judgement) const;

  int rank_;
  int ranks_;
  std::size_t count_ = 0;
  std::size_t repeat_ = 0;
  std::uint32_t seed_ = 0;
  Pages source_;
  Pages result_;
};

}  // namespace ferrule::compare
