#include "collectives/schedule.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>

namespace ferrule::collectives {
namespace {

std::string slot_text(std::uint32_t slot) {
  if (slot == kOwnInput) return "own input";
  if (slot == kSum) return "sum";
  return fmt::format("slot {}", slot);
}

std::string_view error_text(ErrorKept error) {
  switch (error) {
    case ErrorKept::add:
      return "add residual, keep error";
    case ErrorKept::charge:
      return "keep error";
    case ErrorKept::none:
      return "error kept elsewhere";
  }
  return "invalid";
}

std::string level_text(const Step& step) {
  return step.level == 0 ? "" : fmt::format(" of level {}", step.level);
}

std::string rounding_text(const Step& step) {
  return fmt::format("{}, noise of {}", error_text(step.error), step.noise_rank);
}

}  // namespace

std::string to_string(const Step& step) {
  switch (step.operation) {
    case Operation::encode:
      return fmt::format("encode {} -> slot {}{} ({})", slot_text(step.from), step.slot, level_text(step),
                         rounding_text(step));
    case Operation::send:
      return fmt::format("send slot {} to rank {}", step.slot, step.peer);
    case Operation::recv:
      return fmt::format("recv slot {}{} from rank {}", step.slot, level_text(step), step.peer);
    case Operation::decode_add:
      return fmt::format("sum += {}", slot_text(step.slot));
    case Operation::decode:
      return fmt::format("output = {}", slot_text(step.slot));
    case Operation::hop:
      return fmt::format("hop slot {} + own input -> slot {}{} ({})", step.from, step.slot, level_text(step),
                         rounding_text(step));
  }
  return fmt::format("invalid operation {}", static_cast<int>(step.operation));
}

std::string to_string(const Schedule& schedule) {
  std::string text = fmt::format("rank {} of {}: {} chunks, {} slots, {} steps\n", schedule.rank,
                                 schedule.world, schedule.chunks, schedule.slots, schedule.steps.size());
  for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
    const Step& step = schedule.steps[i];
    fmt::format_to(std::back_inserter(text), "{:>5}  chunk {:>3}  {}\n", i, step.chunk, to_string(step));
  }
  return text;
}

}  // namespace ferrule::collectives
