#include "collectives/builder.hpp"

#include <utility>

namespace ferrule::collectives {

Builder::Builder(std::int32_t rank, std::int32_t world, std::uint32_t chunks) {
  schedule_.rank = rank;
  schedule_.world = world;
  schedule_.chunks = chunks;
}

std::uint32_t Builder::fill(Step step) {
  step.slot = schedule_.slots++;
  schedule_.steps.push_back(step);
  return step.slot;
}

std::uint32_t Builder::encode_input(std::uint32_t chunk, std::uint32_t level) {
  return fill({.operation = Operation::encode,
               .level = static_cast<std::uint8_t>(level),
               .chunk = chunk,
               .noise_rank = schedule_.rank});
}

std::uint32_t Builder::encode_sum(std::uint32_t chunk, std::uint32_t level) {
  return fill({.operation = Operation::encode,
               .level = static_cast<std::uint8_t>(level),
               .chunk = chunk,
               .from = kSum,
               .noise_rank = schedule_.rank});
}

std::uint32_t Builder::encode_shared_sum(std::uint32_t chunk, ErrorKept error, std::int32_t noise_rank) {
  return fill({.operation = Operation::encode,
               .error = error,
               .chunk = chunk,
               .from = kSum,
               .noise_rank = noise_rank});
}

std::uint32_t Builder::hop(std::uint32_t chunk, std::uint32_t from) {
  return fill({.operation = Operation::hop, .chunk = chunk, .from = from, .noise_rank = schedule_.rank});
}

void Builder::send(std::int32_t peer, std::uint32_t chunk, std::uint32_t slot) {
  schedule_.steps.push_back({.operation = Operation::send, .chunk = chunk, .slot = slot, .peer = peer});
}

std::uint32_t Builder::recv(std::int32_t peer, std::uint32_t chunk, std::uint32_t level) {
  return fill({.operation = Operation::recv,
               .level = static_cast<std::uint8_t>(level),
               .chunk = chunk,
               .peer = peer});
}

void Builder::add(std::uint32_t chunk, std::uint32_t slot) {
  schedule_.steps.push_back({.operation = Operation::decode_add, .chunk = chunk, .slot = slot});
}

void Builder::decode(std::uint32_t chunk, std::uint32_t slot) {
  schedule_.steps.push_back({.operation = Operation::decode, .chunk = chunk, .slot = slot});
}

Schedule Builder::take() { return std::exchange(schedule_, {}); }

Schedule single_rank_schedule() {
  Builder builder(0, 1, 1);
  builder.add_input(0);
  builder.decode_sum(0);
  return builder.take();
}

}  // namespace ferrule::collectives
