#include "communicator/sum_bounds.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/settings.hpp"
#include "plan/plan.hpp"
#include "plan/selection.hpp"

namespace ferrule::communicator {

using collectives::AlgorithmDesc;
using collectives::Topology;

Result<SumBounds> SumBounds::make(std::shared_ptr<const codec::Codec> codec, std::string_view algorithm,
                                  codec::SumBound sum) {
  const auto world = static_cast<std::int32_t>(sum.world);
  const bool is_list = !codec->levels().empty();
  const bool automatic = algorithm == "auto";
  const AlgorithmDesc* found = collectives::find_algorithm(automatic && is_list ? "hierarchical" : algorithm);
  if ((found == nullptr && !automatic) || world < 1) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("no algorithm '{}' for {} ranks", algorithm, world));
  }
  if (found != nullptr && is_list && !found->uses_topology()) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("algorithm '{}' has no levels, and codec '{}' is one for each", algorithm,
                              codec->spec()));
  }
  SumBounds bounds;
  auto raw = codec::make_codec("none");
  FERRULE_RETURN_IF_ERROR(raw.status());
  bounds.raw_ = std::move(raw).value();
  bounds.codec_ = std::move(codec);
  if (found != nullptr && found->uses_topology()) {
    FERRULE_RETURN_IF_ERROR(bounds.add_topologies(*found, sum));
    return bounds;
  }
  sum.encodes =
      automatic ? plan::most_encodes(world, sum.dtype, bounds.codec_->exact()) : found->encodes(world);
  bounds.cases_.push_back({{{bounds.codec_.get(), sum.encodes}}, sum});
  return bounds;
}

Status SumBounds::add_topologies(const AlgorithmDesc& algorithm, const codec::SumBound& sum) {
  const auto world = static_cast<std::int32_t>(sum.world);
  auto settings = Settings::from_environment();
  FERRULE_RETURN_IF_ERROR(settings.status());
  const std::string text = settings->text("FERRULE_TOPOLOGY");
  if (!text.empty()) {
    auto topology = Topology::parse(text, world);
    FERRULE_RETURN_IF_ERROR(topology.status());
    return add(algorithm, *topology, sum);
  }
  // One host, hosts of one rank, and where there is room for it hosts of several: all that makes a
  // difference.
  FERRULE_RETURN_IF_ERROR(add(algorithm, Topology::of_sizes(std::vector{world}), sum));
  const std::vector<std::int32_t> lone(sum.world, 1);
  FERRULE_RETURN_IF_ERROR(add(algorithm, Topology::of_sizes(lone), sum));
  if (world < 3) return {};
  return add(algorithm, Topology::of_sizes(std::vector{1, world - 1}), sum);
}

Status SumBounds::add(const AlgorithmDesc& algorithm, const Topology& topology, codec::SumBound sum) {
  if (codec_->levels().size() > topology.levels()) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("codec '{}' is for more levels than the topology's {}", codec_->spec(),
                              topology.levels()));
  }
  const auto codecs = plan::codecs_by_level(codec_, raw_, topology.levels());
  Case one;
  for (std::uint32_t level = 0; level < topology.levels(); ++level) {
    const std::uint32_t encodes = collectives::encodes_at(algorithm, topology, level);
    one.uses.push_back({codecs[level].get(), encodes});
    sum.encodes += encodes;
  }
  one.sum = sum;
  cases_.push_back(one);
  return {};
}

double SumBounds::at(double magnitude) const {
  double largest = 0.0;
  for (const Case& one : cases_) {
    largest = std::max(largest, codec::sum_error_bound(one.uses, one.sum, magnitude));
  }
  return largest;
}

}  // namespace ferrule::communicator
