#include "plan/cost_model.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <string>
#include <tuple>

namespace ferrule::plan {
namespace {

using collectives::Operation;

constexpr std::int32_t kSampledRanks = 16;

Shape count_steps(const collectives::Schedule& schedule) {
  std::uint32_t encodes = 0;
  std::uint32_t decodes = 0;
  std::uint32_t sends = 0;
  for (const collectives::Step& step : schedule.steps) {
    const bool hop = step.operation == Operation::hop;
    const bool decode = step.operation == Operation::decode_add || step.operation == Operation::decode;
    sends += step.operation == Operation::send ? 1 : 0;
    encodes += hop || step.operation == Operation::encode ? 1 : 0;
    decodes += hop || decode ? 1 : 0;
  }
  const double chunks = schedule.chunks;
  return {sends, sends / chunks, encodes / chunks, decodes / chunks};
}

Shape largest_over_ranks(const collectives::AlgorithmDesc& algorithm, const collectives::Topology& topology) {
  Shape largest;
  const std::int32_t world = topology.world();
  const std::int32_t sampled = std::min(world, kSampledRanks);
  for (std::int32_t i = 0; i < sampled; ++i) {
    const auto rank = static_cast<std::int32_t>(std::int64_t{i} * world / sampled);
    const Shape shape = count_steps(algorithm.build(rank, topology));
    largest.messages = std::max(largest.messages, shape.messages);
    largest.sent = std::max(largest.sent, shape.sent);
    largest.encoded = std::max(largest.encoded, shape.encoded);
    largest.decoded = std::max(largest.decoded, shape.decoded);
  }
  return largest;
}

double codec_seconds(const Shape& shape, const Situation& situation) {
  const double per_element =
      shape.encoded * situation.codec.encode_s + shape.decoded * situation.codec.decode_s;
  return static_cast<double>(situation.count) * per_element;
}

}  // namespace

Shape shape_of(const collectives::AlgorithmDesc& algorithm, const collectives::Topology& topology) {
  using Key = std::tuple<const collectives::AlgorithmDesc*, std::int32_t, std::string>;
  static std::mutex mutex;
  static std::map<Key, Shape> known;
  const Key key{&algorithm, topology.world(), algorithm.uses_topology() ? topology.text() : std::string()};
  const std::lock_guard lock(mutex);
  const auto [entry, is_new] = known.try_emplace(key);
  if (is_new) entry->second = largest_over_ranks(algorithm, topology);
  return entry->second;
}

double predict_seconds(const Shape& shape, double rounds, const Situation& situation, const LinkModel& link) {
  const double sent_bytes = shape.sent * static_cast<double>(situation.encoded_bytes);
  const double message_bytes = shape.messages == 0 ? 0 : sent_bytes / shape.messages;
  const double slices = std::max(1.0, std::ceil(message_bytes / static_cast<double>(situation.slice_bytes)));
  return rounds * link.latency_s + slices * shape.messages * link.message_s + sent_bytes * link.byte_s +
         codec_seconds(shape, situation);
}

double break_even_byte_s(const Situation& situation, std::size_t raw_bytes) {
  const collectives::AlgorithmDesc* direct = collectives::find_algorithm("direct");
  if (direct == nullptr || raw_bytes <= situation.encoded_bytes)
    return std::numeric_limits<double>::infinity();
  const Shape shape = shape_of(*direct, situation.world);
  const double saved_bytes = shape.sent * static_cast<double>(raw_bytes - situation.encoded_bytes);
  return codec_seconds(shape, situation) / saved_bytes;
}

}  // namespace ferrule::plan
