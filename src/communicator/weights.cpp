#include "communicator/weights.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/log.hpp"
#include "codec/elements.hpp"
#include "communicator/agreement.hpp"

namespace ferrule::communicator {
namespace {

/// In one message.
constexpr std::size_t kMost = ControlPlane::kMaxTextBytes / sizeof(double);

/// Rounds are less than 2^16, and so are the parts of one: a world has less than 2^31 ranks, of which a round
/// of 2^16 parts moves 2^25. Larger ones do not exist.
std::uint32_t part_number(std::uint32_t round, std::size_t first) {
  return (round << 16U) | static_cast<std::uint32_t>(first / kMost);
}

}  // namespace

void WeightExchange::begin(std::uint32_t sequence, double weight) {
  sequence_ = sequence;
  round_ = 0;
  round_sent_ = false;
  waiting_for_ = -1;
  weights_.assign(1, weight);
}

Result<bool> WeightExchange::step() {
  const auto world = membership_.peers.size();
  for (; weights_.size() < world; ++round_, round_sent_ = false) {
    const std::size_t count = std::min(weights_.size(), world - weights_.size());
    if (!round_sent_) send_first(count, round_);
    round_sent_ = true;
    auto heard = hear(count, round_);
    if (!heard.ok() || !*heard) return heard;
  }
  waiting_for_ = -1;
  FERRULE_RETURN_IF_ERROR(add_up());
  return true;
}

void WeightExchange::send_first(std::size_t count, std::uint32_t round) {
  const std::int64_t world = membership_.size();
  const auto to =
      static_cast<std::int32_t>((membership_.rank + world - (std::int64_t{1} << round) % world) % world);
  for (std::size_t first = 0; first < count; first += kMost) {
    const std::size_t bytes = std::min(kMost, count - first) * sizeof(double);
    control_.send_weights(to, sequence_, part_number(round, first),
                          {reinterpret_cast<const char*>(weights_.data() + first), bytes});
  }
}

Result<bool> WeightExchange::hear(std::size_t count, std::uint32_t round) {
  const std::int64_t world = membership_.size();
  waiting_for_ = static_cast<std::int32_t>((membership_.rank + (std::int64_t{1} << round)) % world);
  std::vector<double> theirs(count);
  for (std::size_t first = 0; first < count; first += kMost) {
    const auto part = heard_.find({sequence_, {waiting_for_, part_number(round, first)}});
    if (part == heard_.end()) return false;
    const std::size_t bytes = std::min(kMost, count - first) * sizeof(double);
    if (part->second.size() != bytes) {
      return Status(ErrorCode::corrupt,
                    fmt::format("{} sent {} bytes of weights instead of {}",
                                membership_.describe(waiting_for_), part->second.size(), bytes));
    }
    std::memcpy(theirs.data() + first, part->second.data(), bytes);
  }
  weights_.insert(weights_.end(), theirs.begin(), theirs.end());
  return true;
}

Status WeightExchange::add_up() {
  const auto world = membership_.peers.size();
  sum_ = 0;
  for (std::size_t rank = 0; rank < world; ++rank) {
    const double weight = weights_[(rank + world - static_cast<std::size_t>(membership_.rank)) % world];
    if (!(weight >= 0) || std::isinf(weight)) {
      return {ErrorCode::invalid_argument,
              fmt::format("the weight of {} is {}: weights must be finite, and not negative",
                          membership_.describe(static_cast<std::int32_t>(rank)), weight)};
    }
    sum_ += weight;
  }
  if (sum_ > 0 && !std::isinf(sum_)) return {};
  return {
      ErrorCode::invalid_argument,
      fmt::format("the weights of all ranks sum to {}: at least one must be more than 0, and the sum finite",
                  sum_)};
}

void WeightExchange::take(const ControlMessage& message) {
  if (heard_.size() >= kMaxHeard) {
    log::warn("dropped the weights that rank {} sent for collective #{}: too many are waiting",
              message.source, message.sequence);
    return;
  }
  heard_[{message.sequence, {message.source, message.round}}] = message.text;
}

void WeightExchange::finish(std::uint32_t sequence) {
  std::erase_if(heard_, [&](const auto& entry) { return at_or_after(sequence, entry.first.first); });
}

void scale_elements(const void* from, void* to, std::size_t count, DType dtype, double factor) {
  if (dtype == DType::f64) {
    const auto* x = static_cast<const double*>(from);
    std::transform(x, x + count, static_cast<double*>(to), [factor](double each) { return each * factor; });
    return;
  }
  std::array<float, 1024> some{};
  for (std::size_t first = 0; first < count; first += some.size()) {
    const std::size_t length = std::min(some.size(), count - first);
    codec::load_elements(from, dtype, first, length, some.data());
    for (std::size_t i = 0; i < length; ++i) some[i] *= static_cast<float>(factor);
    codec::store_elements(some.data(), dtype, first, length, to);
  }
}

}  // namespace ferrule::communicator
