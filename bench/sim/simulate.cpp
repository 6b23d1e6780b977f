#include "bench/sim/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "bench/sim/schedule_of.hpp"

namespace ferrule::sim {
namespace {

/// Messages of one slice whose programs may be held in memory, about 200 bytes each.
constexpr double kMostHeld = 3e6;
constexpr double kMostPadding = 0.01;
/// Up to here nothing is gained by looking for ranks that are alike.
constexpr double kSmall = 2e5;

class Simulation {
 public:
  explicit Simulation(const Question& question) : question_(question) {}

  Result<Answer> run() {
    FERRULE_RETURN_IF_ERROR(measure());
    if (question_.only_full || total_messages() <= std::min(kSmall, question_.most_messages)) {
      return run_full();
    }
    auto rotated = run_rotation();
    FERRULE_RETURN_IF_ERROR(rotated.status());
    if (rotated->has_value()) return **std::move(rotated);
    return run_classes();
  }

 private:
  Result<Program> program_of(std::int32_t rank) const {
    return timed_program(schedule_of(*question_.algorithm, rank, question_.place), question_.codecs);
  }

  // How large it is, from a few ranks: the first, the last and some that are inner nodes of a tree.
  Status measure() {
    const std::int32_t world = question_.place.world;
    for (const std::int32_t rank : {0, 1, world / 2, world / 2 + 1, world - 1}) {
      if (rank < 0 || rank >= world) continue;
      const collectives::Schedule schedule = schedule_of(*question_.algorithm, rank, question_.place);
      const auto sends = std::count_if(schedule.steps.begin(), schedule.steps.end(), [](const auto& step) {
        return step.operation == collectives::Operation::send;
      });
      sends_ = std::max(sends_, static_cast<double>(sends));
      if (rank == 0) {
        cut_.emplace(question_.codecs, question_.tensor, schedule.chunks, question_.slice_bytes);
      }
    }
    return {};
  }

  double slice_messages() const { return sends_ * question_.place.world; }
  double total_messages() const { return slice_messages() * cut_->slices(); }

  Status too_large(std::string_view what, double size, double limit, std::string_view advice) const {
    return {ErrorCode::unsupported,
            fmt::format("{} with {} ranks and {} elements: {} are {:.3g}, more than {:.3g}; {}",
                        question_.algorithm->name, question_.place.world, question_.tensor.count, what, size,
                        limit, advice)};
  }

  Result<Answer> run_full() {
    if (slice_messages() > kMostHeld) {
      return too_large("the messages of a slice", slice_messages(), kMostHeld,
                       "every rank needs fewer ranks");
    }
    if (total_messages() > question_.most_messages) {
      return too_large("the messages", total_messages(), question_.most_messages,
                       "raise --max-messages, or leave out --full");
    }
    auto network = full_network(question_.place, [this](std::int32_t rank) { return program_of(rank); });
    FERRULE_RETURN_IF_ERROR(network.status());
    return run_network(*network, Mode::full);
  }

  // Empty where ranks are not alike.
  Result<std::optional<Answer>> run_rotation() {
    const double padding = static_cast<double>(cut_->even_count()) /
                               static_cast<double>(std::max<std::size_t>(1, cut_->count())) -
                           1;
    const double held = sends_ * question_.place.levels.period();
    const bool possible = question_.place.stragglers.none() && padding <= kMostPadding && held <= kMostHeld;
    if (!possible) return std::optional<Answer>();
    Likeness likeness = Likeness::none;
    auto network = rotation_network(
        question_.place, [this](std::int32_t rank) { return program_of(rank); }, likeness);
    FERRULE_RETURN_IF_ERROR(network.status());
    if (likeness == Likeness::none) return std::optional<Answer>();
    const Cut::Tensor even{cut_->even_count(), question_.tensor.dtype};
    cut_.emplace(question_.codecs, even, cut_->chunks(), question_.slice_bytes);
    auto answer = run_network(*network, likeness == Likeness::exact ? Mode::rotation : Mode::near_rotation);
    FERRULE_RETURN_IF_ERROR(answer.status());
    answer->padding = padding;
    return std::optional<Answer>(std::move(answer).value());
  }

  Result<Answer> run_classes() {
    if (slice_messages() > kMostHeld) {
      return too_large("the messages of a slice", slice_messages(), kMostHeld, why_not_rotation());
    }
    auto network = full_network(question_.place, [this](std::int32_t rank) { return program_of(rank); });
    FERRULE_RETURN_IF_ERROR(network.status());
    const std::size_t all = network->walkers.size();
    if (!question_.place.levels.shared_ports) network = merged(std::move(network).value(), *cut_);
    return run_network(*network, network->walkers.size() < all ? Mode::classes : Mode::full);
  }

  std::string why_not_rotation() const {
    if (!question_.place.stragglers.none()) return "with stragglers no rank stands for others: fewer ranks";
    if (cut_->even_count() != cut_->count() && cut_->chunks() > 1) {
      return fmt::format(
          "ranks are alike, and one can stand for all, only where all chunks are equal: the next "
          "larger tensor with equal chunks has {} elements",
          cut_->even_count());
    }
    return "ranks are not alike here (the world is no multiple of a node, or the algorithm treats them "
           "differently): fewer ranks";
  }

  Pace pace(std::uint32_t slices) const {
    return {slices, question_.slices_in_flight, question_.header_bytes, question_.message_cost_ns};
  }

  Result<Answer> run_network(const Network& network, Mode mode) {
    Answer answer;
    answer.mode = mode;
    answer.walkers = network.walkers.size();
    answer.slices = cut_->slices();
    double slice_messages = 0;
    for (const Walker& walker : network.walkers) slice_messages += static_cast<double>(walker.wires.size());
    const bool all = slice_messages * answer.slices <= question_.most_messages;
    answer.simulated_slices = all ? answer.slices : steady_slices(slice_messages);
    if (!all && answer.simulated_slices == 0) {
      return too_large("the messages", slice_messages * answer.slices, question_.most_messages,
                       "raise --max-messages or --slice");
    }
    auto outcome = simulate_events(network, *cut_, pace(answer.simulated_slices));
    FERRULE_RETURN_IF_ERROR(outcome.status());
    answer.outcome = std::move(outcome).value();
    if (!all) FERRULE_RETURN_IF_ERROR(extrapolate(network, answer));
    return answer;
  }

  // An even number of rounds of slices in flight that fits twice into the limit; 0 if even two do not.
  std::uint32_t steady_slices(double slice_messages) const {
    const double rounds =
        question_.most_messages / (1.5 * slice_messages) / (2.0 * question_.slices_in_flight);
    if (question_.only_full || rounds < 1) return 0;
    return 2 * question_.slices_in_flight * static_cast<std::uint32_t>(rounds);
  }

  // Once the pipe is full, each further slice costs about the same (runs in which ports serve in a fixed
  // order are linear in max and plus, and such systems end in a steady rate; ours nearly are).
  Status extrapolate(const Network& network, Answer& answer) const {
    const std::uint32_t half = answer.simulated_slices / 2;
    auto shorter = simulate_events(network, *cut_, pace(half));
    FERRULE_RETURN_IF_ERROR(shorter.status());
    const double more = (cut_->full_slices() - answer.simulated_slices) / half;
    const auto extend = [more](double& longer, double less) { longer += more * (longer - less); };
    Outcome& outcome = answer.outcome;
    outcome.messages += shorter->messages;
    extend(outcome.time_ns, shorter->time_ns);
    extend(outcome.first_done_ns, shorter->first_done_ns);
    extend(outcome.most_busy_ns, shorter->most_busy_ns);
    extend(outcome.most_sent_bytes, shorter->most_sent_bytes);
    for (std::size_t i = 0; i < outcome.level_bytes.size(); ++i) {
      extend(outcome.level_bytes[i], shorter->level_bytes[i]);
    }
    return {};
  }

  const Question& question_;
  std::optional<Cut> cut_;
  double sends_ = 0;  // of the rank that sends most, in a slice
};

}  // namespace

std::string_view mode_name(Mode mode) {
  constexpr std::string_view kNames[] = {"full", "rotation", "classes", "near_rotation"};
  return kNames[static_cast<int>(mode)];
}

Result<Answer> simulate(const Question& question) { return Simulation(question).run(); }

}  // namespace ferrule::sim
