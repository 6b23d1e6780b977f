#include "collectives/verify/findings.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace ferrule::collectives::verifier {

std::string Findings::where(Place place) {
  if (place.rank < 0) return "all ranks";
  if (place.step < 0) return fmt::format("rank {}", place.rank);
  return fmt::format("rank {}, step {}", place.rank, place.step);
}

void Findings::add(Fault fault, Place place, const std::string& reason) {
  std::string step;
  if (place.step >= 0) {
    const Step& what =
        schedules_[static_cast<std::size_t>(place.rank)].steps[static_cast<std::size_t>(place.step)];
    step = fmt::format(" (chunk {}: {})", what.chunk, to_string(what));
  }
  findings_.push_back(
      {fault, place, fmt::format("{}: {}{}: {}", fault_name(fault), where(place), step, reason)});
}

namespace {

class FormCheck {
 public:
  FormCheck(std::span<const Schedule> schedules, const Contract& contract, Findings& findings)
      : schedules_(schedules), contract_(contract), findings_(findings) {
    for (const Schedule& schedule : schedules) all_steps_ += schedule.steps.size();
  }

  void run() {
    if (schedules_.empty()) fail({}, "there is no schedule");
    for (std::size_t rank = 0; rank < schedules_.size(); ++rank) {
      check_schedule(schedules_[rank], static_cast<std::int32_t>(rank));
    }
  }

 private:
  void fail(Place place, const std::string& reason) { findings_.add(Fault::malformed, place, reason); }

  void check_schedule(const Schedule& schedule, std::int32_t rank) {
    const auto world = static_cast<std::int32_t>(schedules_.size());
    if (schedule.rank != rank || schedule.world != world) {
      fail({rank}, fmt::format("is the schedule of rank {} of {}, and stands for rank {} of {}",
                               schedule.rank, schedule.world, rank, world));
    }
    if (schedule.chunks == 0 || schedule.chunks != schedules_[0].chunks) {
      fail({rank}, fmt::format("has {} chunks; rank 0 has {}, and there must be one at least",
                               schedule.chunks, schedules_[0].chunks));
    }
    if (const std::uint32_t due = contract_.chunks(); due != 0 && schedule.chunks != due) {
      fail({rank}, fmt::format("has {} chunks; {} of {} ranks has {}", schedule.chunks,
                               name(contract_.collective), contract_.world, due));
    }
    // Every chunk needs a step that stores it (on this rank if all get it), every slot one that writes it. So
    // what follows allocates no more than the steps take already, whatever the numbers say.
    const bool idle = contract_.collective == Collective::barrier;
    const std::size_t storing =
        idle ? 1 : (replicates(contract_.collective) ? schedule.steps.size() : all_steps_);
    if (schedule.chunks > storing || schedule.slots > schedule.steps.size()) {
      fail({rank}, fmt::format("has {} chunks and {} slots, and only {} steps", schedule.chunks,
                               schedule.slots, schedule.steps.size()));
    }
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const std::string reason = reason_of(schedule, schedule.steps[i], rank);
      if (!reason.empty()) fail({rank, static_cast<std::int32_t>(i)}, reason);
    }
  }

  // Why the step is malformed; empty if it is not.
  std::string reason_of(const Schedule& schedule, const Step& step, std::int32_t rank) const {
    if (step.operation > Operation::hop || step.error > ErrorKept::none)
      return "unknown operation or error rule";
    if (step.chunk >= schedule.chunks) return fmt::format("there are {} chunks", schedule.chunks);
    if (!slots_are_valid(schedule, step)) return fmt::format("no such slot; there are {}", schedule.slots);
    const bool moves = step.operation == Operation::send || step.operation == Operation::recv;
    if (moves && (step.peer < 0 || step.peer >= schedule.world || step.peer == rank)) {
      return fmt::format("rank {} cannot be its peer", step.peer);
    }
    const bool encodes = step.operation == Operation::encode || step.operation == Operation::hop;
    if (encodes && step.noise_rank < 0) return "it has no random bits";
    return {};
  }

  static bool slots_are_valid(const Schedule& schedule, const Step& step) {
    const bool numbered = step.slot < schedule.slots;
    switch (step.operation) {
      case Operation::encode:
        return numbered && (step.from == kOwnInput || step.from == kSum);
      case Operation::hop:
        return numbered && step.from < schedule.slots;
      case Operation::decode_add:
        return numbered || step.slot == kOwnInput;
      case Operation::decode:
        return numbered || step.slot == kSum;
      case Operation::send:
      case Operation::recv:
        return numbered;
    }
    return false;
  }

  std::span<const Schedule> schedules_;
  const Contract contract_;
  Findings& findings_;
  std::size_t all_steps_ = 0;
};

}  // namespace

void check_form(std::span<const Schedule> schedules, const Contract& contract, Findings& findings) {
  FormCheck(schedules, contract, findings).run();
}

}  // namespace ferrule::collectives::verifier
