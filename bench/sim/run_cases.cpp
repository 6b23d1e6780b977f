#include "bench/sim/run_cases.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

#include "bench/sim/codec_rates.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::sim {
namespace {

using collectives::AlgorithmDesc;

Result<std::vector<const AlgorithmDesc*>> find_algorithms(const std::vector<std::string>& names) {
  std::vector<const AlgorithmDesc*> found;
  std::vector<std::string_view> all;
  for (const AlgorithmDesc& algorithm : collectives::algorithms()) {
    all.push_back(algorithm.name);
    if (names.empty()) found.push_back(&algorithm);
  }
  for (const std::string& name : names) {
    found.push_back(collectives::find_algorithm(name));
    if (found.back() != nullptr) continue;
    return Status(ErrorCode::invalid_argument, fmt::format("no algorithm '{}' in this build; there are: {}",
                                                           name.substr(0, 100), fmt::join(all, ", ")));
  }
  return found;
}

Result<LevelCodec> make_level(const std::string& text, const Options& options) {
  auto codec = codec::make_codec(text);
  if (!codec.ok()) return codec.status();
  LevelCodec level{std::move(codec).value(), {}};
  if (!level.codec->supports(options.dtype, ReduceOp::sum)) {
    return Status(ErrorCode::unsupported,
                  fmt::format("codec {} takes no sums of {}; choose -d float, or codec none", text,
                              dtype_name(options.dtype)));
  }
  level.rates = options.rates ? *options.rates : measure_rates(*level.codec, options.dtype);
  return level;
}

/// Runs one combination after the other. Codecs are made once, so that they are measured once.
class Cases {
 public:
  explicit Cases(const Options& options) : options_(options) {}

  Status prepare() {
    auto algorithms = find_algorithms(options_.algorithms);
    FERRULE_RETURN_IF_ERROR(algorithms.status());
    algorithms_ = std::move(algorithms).value();
    auto raw = make_codecs("none", options_);
    FERRULE_RETURN_IF_ERROR(raw.status());
    raw_ = std::move(raw).value();
    for (const std::string& text : options_.codecs) {
      auto codecs = make_codecs(text, options_);
      FERRULE_RETURN_IF_ERROR(codecs.status());
      codecs_.push_back(std::move(codecs).value());
    }
    return {};
  }

  Status run(const std::function<void(const CaseResult&)>& report) const {
    for (const std::int32_t world : options_.worlds) {
      auto place = place_of(world, options_.levels, options_.stragglers);
      FERRULE_RETURN_IF_ERROR(place.status());
      for (const std::uint64_t bytes : options_.sizes) {
        for (const AlgorithmDesc* algorithm : algorithms_) {
          for (const Codecs& codecs : codecs_) report(run_one(*place, bytes, *algorithm, codecs));
        }
      }
    }
    return {};
  }

 private:
  // As in the library: one codec is that between nodes, inside nothing is lost; algorithms that know no nodes
  // have one codec, the outermost; and what a codec would not make smaller goes raw.
  Codecs used(const Codecs& codecs, const AlgorithmDesc& algorithm, const Cut::Tensor& tensor) const {
    Codecs used;
    const std::size_t raw_bytes = tensor.count * element_bytes(tensor.dtype);
    for (const LevelCodec& one : codecs) {
      const bool shrinks = one.codec->encoded_bytes(tensor.count, tensor.dtype) < raw_bytes;
      used.push_back(shrinks ? one : raw_.front());
    }
    if (!algorithm.uses_topology()) return {used.back()};
    const std::size_t levels = options_.levels.levels.size();
    if (used.size() == 1 && levels > 1) used.insert(used.begin(), levels - 1, raw_.front());
    return used;
  }

  CaseResult run_one(const Place& place, std::uint64_t bytes, const AlgorithmDesc& algorithm,
                     const Codecs& codecs) const {
    Question question;
    question.algorithm = &algorithm;
    question.tensor = {static_cast<std::size_t>(bytes) / element_bytes(options_.dtype), options_.dtype};
    question.codecs = used(codecs, algorithm, question.tensor);
    question.place = place;
    question.slice_bytes = options_.slice_bytes;
    question.slices_in_flight = options_.slices_in_flight;
    question.header_bytes = options_.header_bytes;
    question.message_cost_ns = options_.message_cost_ns;
    question.most_messages = options_.most_messages;
    question.only_full = options_.only_full;
    CaseResult result;
    result.world = place.world;
    result.bytes = question.tensor.count * element_bytes(options_.dtype);
    result.codecs = question.codecs;
    result.algorithm = algorithm.name;
    auto answer = simulate(question);
    result.status = answer.status();
    if (answer.ok()) result.answer = std::move(answer).value();
    return result;
  }

  const Options& options_;
  std::vector<const AlgorithmDesc*> algorithms_;
  std::vector<Codecs> codecs_;
  Codecs raw_;
};

}  // namespace

Result<Codecs> make_codecs(const std::string& text, const Options& options) {
  Codecs codecs;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('/', begin), text.size());
    auto level = make_level(text.substr(begin, end - begin), options);
    FERRULE_RETURN_IF_ERROR(level.status());
    codecs.push_back(std::move(level).value());
    begin = end + 1;
  }
  if (codecs.size() > options.levels.levels.size()) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("codec '{}' is for {} levels, and the links have {} (see --level)", text,
                              codecs.size(), options.levels.levels.size()));
  }
  return codecs;
}

Status run_cases(const Options& options, const std::function<void(const CaseResult&)>& report) {
  Cases cases(options);
  FERRULE_RETURN_IF_ERROR(cases.prepare());
  return cases.run(report);
}

}  // namespace ferrule::sim
