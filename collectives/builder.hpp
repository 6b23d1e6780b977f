// Writes the steps of one rank and numbers its slots. Only algorithms use it.
#pragma once

#include <cstdint>

#include "collectives/schedule.hpp"

namespace ferrule::collectives {

/// `level` is that of the codec of the slot's bytes. Every function that fills a slot takes the next free
/// number and returns it, so that a slot cannot be written twice. Two sends or receives in a row are one
/// batch (see Schedule).
class Builder {
 public:
  Builder(std::int32_t rank, std::int32_t world, std::uint32_t chunks);

  /// slot = encode(own input), the one use of the residual of this (rank, chunk).
  std::uint32_t encode_input(std::uint32_t chunk, std::uint32_t level = 0);
  /// slot = encode(sum), the one use of the residual of this (rank, chunk).
  std::uint32_t encode_sum(std::uint32_t chunk, std::uint32_t level = 0);
  /// slot = encode(sum), where other ranks encode the same value and must get the same bytes: all of them
  /// give the same `noise_rank`, one of them gives ErrorKept::charge, the others ErrorKept::none.
  std::uint32_t encode_shared_sum(std::uint32_t chunk, ErrorKept error, std::int32_t noise_rank);
  /// slot = encode(decode(from) + own input), the one use of the residual of this (rank, chunk).
  std::uint32_t hop(std::uint32_t chunk, std::uint32_t from);

  void send(std::int32_t peer, std::uint32_t chunk, std::uint32_t slot);
  std::uint32_t recv(std::int32_t peer, std::uint32_t chunk, std::uint32_t level = 0);

  /// sum += decode(slot)
  void add(std::uint32_t chunk, std::uint32_t slot);
  void add_input(std::uint32_t chunk) { add(chunk, kOwnInput); }
  /// output = decode(slot)
  void decode(std::uint32_t chunk, std::uint32_t slot);
  void decode_sum(std::uint32_t chunk) { decode(chunk, kSum); }

  /// The schedule; the builder is empty afterwards.
  Schedule take();

 private:
  std::uint32_t fill(Step step);

  Schedule schedule_;
};

/// The schedule of a world of one, for every algorithm: the output is the input, and nothing is encoded.
Schedule single_rank_schedule();

/// A rank in a ring of `world`, for -world <= rank < 2 * world - 1.
constexpr std::int32_t wrap(std::int32_t rank, std::int32_t world) { return (rank + world) % world; }

}  // namespace ferrule::collectives
