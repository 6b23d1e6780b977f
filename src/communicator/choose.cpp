// What a call becomes: codec and algorithm, and the figures that the choice goes by.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "communicator/calibration.hpp"
#include "communicator/communicator.hpp"
#include "plan/selection.hpp"

namespace ferrule::communicator {
namespace {

// Compression must be expected to save this share of the time, or it is left off.
constexpr double kWorthwhile = 0.05;
// Calibration takes sequence numbers below zero (they wrap), so that the first collective of the caller is
// #0.
constexpr std::uint32_t kCalibrationSequences = 4096;
constexpr std::uint32_t kCalibrationSlices = 64;
// A link of less than 2.7 Gbit/s is slower than ranks handle its bytes: its queue is what overflows.
constexpr double kSlowByte = 3e-9;

}  // namespace

// The measurements are collectives like any other, with many slices under way so that they see the link and
// not the window.
Status Communicator::tune() {
  if (size() == 1) return {};
  if (defaults_.tuning.kind == TuningSource::Kind::file) {
    auto tuning = Tuning::read(defaults_.tuning.path);
    FERRULE_RETURN_IF_ERROR(tuning.status());
    tuning_ = std::move(tuning).value();
  } else if (defaults_.tuning.kind == TuningSource::Kind::measure) {
    const auto start = Deadline::Clock::now();
    const plan::Environment configured = environment_;
    environment_.slices_in_flight = std::max(kCalibrationSlices, configured.slices_in_flight);
    environment_.fill_link = false;
    next_sequence_ = -kCalibrationSequences;
    auto link = Calibration(*this).link();
    FERRULE_RETURN_IF_ERROR(link.status());
    next_sequence_ = 0;
    environment_ = configured;
    tuning_.link = *link;
    leave_out_of_stats({});
    trace_.clear();
    plans_ = plan::PlanCache(kPlans);
    log::info("link of {}: {}; measured in {:.3g} ms", membership_.describe(rank()), describe(*link),
              std::chrono::duration<double, std::milli>(Deadline::Clock::now() - start).count());
  }
  environment_.link = tuning_.link;
  if (defaults_.tuning.kind != TuningSource::Kind::builtin) fit_slices();
  return is_auto_codec(defaults_.codec) ? know_cost(defaults_.codec) : Status();
}

void Communicator::fit_slices() {
  const transport::Caps caps = transport_->caps();
  if (tuning_.link.byte_s < kSlowByte) return;
  if (defaults_.slice_bytes == 0 && caps.slow_message_bytes != 0) {
    environment_.slice_bytes = caps.slow_message_bytes;
  }
  if (defaults_.slices_in_flight == 0 && caps.slow_messages_in_flight != 0) {
    environment_.slices_in_flight = caps.slow_messages_in_flight;
  }
}

Status Communicator::know_cost(std::string_view codec_text) {
  std::unique_lock lock(mutex_);
  auto codec = find_codec(without_auto(codec_text));
  FERRULE_RETURN_IF_ERROR(codec.status());
  if (!(*codec)->levels().empty()) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("codec '{}': auto: takes one codec, not one for each level", codec_text));
  }
  if (tuning_.codecs.contains((*codec)->spec())) return {};
  if (defaults_.tuning.kind != TuningSource::Kind::measure || size() == 1 || (*codec)->exact()) {
    tuning_.codecs[(*codec)->spec()] = (*codec)->exact() ? plan::CodecCost{} : kBuiltinCodecCost;
    return {};
  }
  const Stats before = stats_;
  lock.unlock();
  auto cost = Calibration(*this).codec(**codec);
  FERRULE_RETURN_IF_ERROR(cost.status());
  leave_out_of_stats(before);
  lock.lock();
  tuning_.codecs[(*codec)->spec()] = *cost;
  return {};
}

void Communicator::leave_out_of_stats(const Stats& before) {
  const std::lock_guard lock(mutex_);
  calibrated_ = transport_->counters() - before.counters;
  const std::size_t scratch_bytes = stats_.scratch_bytes;
  stats_ = before;
  stats_.scratch_bytes = scratch_bytes;  // calibration's memory is kept for the caller's collectives
}

Tuning Communicator::tuning() {
  const std::lock_guard lock(mutex_);
  return tuning_;
}

Result<std::shared_ptr<const codec::Codec>> Communicator::find_codec(std::string_view text) {
  const auto found = codecs_.find(text);
  if (found != codecs_.end()) return found->second;
  auto made = codec::make_codec(text);
  FERRULE_RETURN_IF_ERROR(made.status());
  std::shared_ptr<const codec::Codec> codec = std::move(made).value();
  // Texts that mean the same share one codec, so that they share plans.
  for (const auto& [other_text, other] : codecs_) {
    if (other->spec() == codec->spec()) codec = other;
  }
  codecs_.emplace(text, codec);
  return codec;
}

std::string_view Communicator::codec_text(const Call& call) const {
  if (defaults_.disable) return "none";
  return call.codec.empty() ? std::string_view(defaults_.codec) : call.codec;
}

// Lossy only when asked: a codec named in the call must fit; a default one, or one that is left to us, is
// used where it fits.
Result<plan::Request> Communicator::resolve(const Call& call) {
  plan::Request request{call.count, call.dtype, call.op, nullptr, nullptr};
  request.collective = call.collective;
  request.root = call.root;
  request.counts.assign(call.counts.begin(), call.counts.end());
  request.recv_counts.assign(call.recv_counts.begin(), call.recv_counts.end());
  // What only moves has no operation.
  if (!collectives::reduces(call.collective)) request.op = ReduceOp::sum;
  const std::string_view text = codec_text(call);
  const bool is_left_to_us = is_auto_codec(text);
  const bool asked = !call.codec.empty() && !is_left_to_us;
  auto codec = find_codec(without_auto(text));
  FERRULE_RETURN_IF_ERROR(codec.status());
  request.codec = *codec;
  auto algorithm = resolve_algorithm(call);
  FERRULE_RETURN_IF_ERROR(algorithm.status());
  request.algorithm = *algorithm;
  const bool moves = !collectives::takes_codecs(call.collective);
  if (moves && asked && !request.codec->exact()) {
    return Status(ErrorCode::unsupported,
                  fmt::format("{} is always exact, and codec '{}' is not: leave the codec out, or use 'none'",
                              name(call.collective), request.codec->spec()));
  }
  const bool fits = !moves && request.codec->supports(request.dtype, request.op);
  if (!fits && asked && !moves) {
    return Status(
        ErrorCode::unsupported,
        fmt::format("codec '{}' takes sum and avg of f32, f16 and bf16, not {} of {}: use codec 'none', "
                    "which is exact",
                    request.codec->spec(), op_name(call.op), dtype_name(call.dtype)));
  }
  const bool small = request.total(size()) * element_bytes(call.dtype) < defaults_.min_bytes;
  // A default codec is for gradients; parameters, which an all-gather brings, are compressed on request only.
  const bool is_default = !asked && call.codec.empty();
  if (moves || (is_default && call.collective == collectives::Collective::all_gather)) {
    request.codec = *find_codec("none");
  }
  if (!asked && (!fits || (small && !request.codec->exact()))) request.codec = *find_codec("none");
  if (is_left_to_us && !request.codec->exact() && !pays(request)) request.codec = *find_codec("none");
  return request;
}

Result<const collectives::AlgorithmDesc*> Communicator::resolve_algorithm(const Call& call) const {
  const std::string_view name =
      call.algorithm.empty() ? std::string_view(defaults_.algorithm) : call.algorithm;
  if (name == "auto") return nullptr;
  const collectives::AlgorithmDesc* found = collectives::find_algorithm(name, call.collective);
  // A default is for the collectives that have it.
  if (found != nullptr || call.algorithm.empty()) return found;
  std::string known = "auto";
  for (const collectives::AlgorithmDesc& each : collectives::algorithms(call.collective))
    known += ", " + std::string(each.name);
  const std::string of = call.collective == collectives::Collective::all_reduce
                             ? std::string()
                             : fmt::format(" of {}", collectives::name(call.collective));
  return Status(ErrorCode::invalid_argument,
                fmt::format("no algorithm{} is named '{}' (there are {})", of, name, known));
}

// Whether the request's codec is expected to be faster than raw.
bool Communicator::pays(const plan::Request& request) {
  if (size() == 1) return false;
  plan::Situation coded = situation_of(request);
  plan::Request raw_request = request;
  raw_request.codec = *find_codec("none");
  const plan::Situation raw = situation_of(raw_request);
  if (break_even_told_.insert(request.codec->spec()).second) log_break_even(request);
  const auto seconds = [&](const plan::Situation& situation) {
    if (request.algorithm != nullptr) {
      return plan::predict_seconds(plan::shape_of(*request.algorithm, size()),
                                   plan::rounds_of(*request.algorithm, size()), situation, environment_.link);
    }
    auto choice = plan::choose_algorithm(situation, environment_.link);
    return choice.ok() ? choice->seconds : 0;
  };
  return seconds(coded) < (1 - kWorthwhile) * seconds(raw);
}

Result<Preview> Communicator::preview(const Call& call) {
  if (!is_valid(call.dtype) || !is_valid(call.op)) {
    return Status(ErrorCode::invalid_argument, "no such dtype or operation");
  }
  if (is_auto_codec(codec_text(call))) FERRULE_RETURN_IF_ERROR(know_cost(codec_text(call)));
  const std::lock_guard lock(mutex_);
  auto request = resolve(call);
  FERRULE_RETURN_IF_ERROR(request.status());
  auto plan = plan::Plan::make(*request, environment_, *find_codec("none"));
  FERRULE_RETURN_IF_ERROR(plan.status());
  const collectives::AlgorithmDesc& algorithm = (*plan)->algorithm();
  const double seconds =
      plan::predict_seconds(plan::shape_of(algorithm, *environment_.topology),
                            plan::rounds_of(algorithm, size()), situation_of(*request), environment_.link);
  return Preview{(*plan)->codec_text(), algorithm.name, (*plan)->slice_count(),
                 std::min((*plan)->slices_in_flight(), (*plan)->slice_count()), seconds};
}

plan::Situation Communicator::situation_of(const plan::Request& request) const {
  plan::Situation situation;
  situation.world = size();
  situation.collective = request.collective;
  situation.count = request.total(size());
  situation.encoded_bytes = request.codec->encoded_bytes(situation.count, request.dtype);
  situation.slice_bytes = environment_.slice_bytes;
  situation.dtype = request.dtype;
  situation.exact = request.codec->exact();
  const auto cost = tuning_.codecs.find(request.codec->spec());
  if (cost != tuning_.codecs.end()) situation.codec = cost->second;
  return situation;
}

void Communicator::log_break_even(const plan::Request& request) const {
  if (rank() != 0) return;
  constexpr double kGbit = 8e-9;  // of a byte
  const plan::Situation situation = situation_of(request);
  const double byte_s = plan::break_even_byte_s(situation, situation.count * element_bytes(request.dtype));
  log::info("{} pays for large sums where a rank's link is below {:.3g} Gbit/s; here it has {:.3g} Gbit/s",
            request.codec->spec(), kGbit / byte_s, kGbit / environment_.link.byte_s);
}

}  // namespace ferrule::communicator
