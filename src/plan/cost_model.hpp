// What a collective costs: a latency-bandwidth model (alpha-beta; R. W. Hockney 1994) with a term for each
// message and one for the codec. Its parameters are measured when a communicator is made, or given.
//
// The model is for comparing: it adds wire and codec although slices overlap them, so that it errs towards
// not compressing. Every rank evaluates it with the same parameters, hence to the same choice.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/schedule.hpp"
#include "ferrule/types.hpp"

namespace ferrule::plan {

/// A rank's link while all ranks use theirs alike. The defaults are of ranks that share a machine's memory.
struct LinkModel {
  double latency_s = 2e-6;    ///< from one rank's send to the other's reaction
  double message_s = 0.5e-6;  ///< for each message that a rank sends
  double byte_s =
      0.25e-9;  ///< for each byte that a rank sends while it receives as many; its handling included
};

/// What a codec costs for each element while all ranks of the machine work; zero for raw elements, whose
/// handling is in LinkModel::byte_s.
struct CodecCost {
  double encode_s = 0;
  double decode_s = 0;
};

/// An algorithm as the model sees it: counted from its schedules, the largest over ranks.
struct Shape {
  std::uint32_t messages = 0;  ///< that a rank sends for each slice
  double sent = 0;             ///< in units of the encoded tensor
  double encoded = 0;          ///< in units of the tensor's elements, as are the next
  double decoded = 0;
};

/// Of a world of more than 16 ranks, 16 are looked at. Remembered: the first call for an algorithm and world
/// costs O(steps) for each. Thread safe.
Shape shape_of(const collectives::AlgorithmDesc& algorithm, const collectives::Topology& topology);

/// One collective.
struct Situation {
  collectives::Collective collective = collectives::Collective::all_reduce;
  std::int32_t world = 1;
  std::size_t count = 0;          ///< elements
  std::size_t encoded_bytes = 0;  ///< of the whole tensor
  std::size_t slice_bytes = 64512;
  DType dtype = DType::f32;
  bool exact = true;  ///< the codec loses nothing
  CodecCost codec;
};

/// Seconds. `rounds`: messages one after another on the longest path.
double predict_seconds(const Shape& shape, double rounds, const Situation& situation, const LinkModel& link);

/// LinkModel::byte_s above which a codec of this cost makes large sums faster than raw ones: both by
/// `direct`. Infinite if it shrinks nothing.
double break_even_byte_s(const Situation& situation, std::size_t raw_bytes);

}  // namespace ferrule::plan
