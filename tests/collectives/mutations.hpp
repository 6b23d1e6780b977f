// Ways to break one step of a schedule, for tests that the verifier objects to each.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/schedule.hpp"

namespace ferrule::collectives::test {

// Returns false where the mutation would change nothing.
struct Mutation {
  const char* name;
  bool (*apply)(Schedule& schedule, std::size_t index);
};

inline bool encodes(const Step& step) {
  return step.operation == Operation::encode || step.operation == Operation::hop;
}
inline bool moves(const Step& step) {
  return step.operation == Operation::send || step.operation == Operation::recv;
}

inline const Mutation kMutations[] = {
    {"remove",
     [](Schedule& schedule, std::size_t index) {
       schedule.steps.erase(schedule.steps.begin() + static_cast<std::ptrdiff_t>(index));
       return true;
     }},
    {"repeat",
     [](Schedule& schedule, std::size_t index) {
       const Step step = schedule.steps[index];
       // The sum may be stored only once, but it may be read twice by nobody else: every repetition is a
       // fault.
       schedule.steps.insert(schedule.steps.begin() + static_cast<std::ptrdiff_t>(index), step);
       return true;
     }},
    {"next chunk",
     [](Schedule& schedule, std::size_t index) {
       schedule.steps[index].chunk = (schedule.steps[index].chunk + 1) % schedule.chunks;
       return schedule.chunks > 1;
     }},
    {"next slot",
     [](Schedule& schedule, std::size_t index) {
       std::uint32_t& slot = schedule.steps[index].slot;
       if (slot >= schedule.slots) return false;
       slot = (slot + 1) % schedule.slots;
       return schedule.slots > 1;
     }},
    {"next peer",
     [](Schedule& schedule, std::size_t index) {
       Step& step = schedule.steps[index];
       if (!moves(step)) return false;
       step.peer = (step.peer + 1) % schedule.world;
       return true;
     }},
    {"another level",
     [](Schedule& schedule, std::size_t index) {
       Step& step = schedule.steps[index];
       if (!encodes(step) && step.operation != Operation::recv) return false;
       step.level = step.level == 0 ? 1 : 0;
       return true;
     }},
    {"drop the error",
     [](Schedule& schedule, std::size_t index) {
       Step& step = schedule.steps[index];
       if (!encodes(step) || step.error == ErrorKept::none) return false;
       step.error = ErrorKept::none;
       return true;
     }},
    {"charge the error",
     [](Schedule& schedule, std::size_t index) {
       Step& step = schedule.steps[index];
       if (!encodes(step) || step.error == ErrorKept::charge) return false;
       step.error = ErrorKept::charge;
       return true;
     }},
};

}  // namespace ferrule::collectives::test
