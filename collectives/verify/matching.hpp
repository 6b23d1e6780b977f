// Who talks to whom: sends against receives, and deadlock.
#pragma once

#include <span>

#include "collectives/verify/findings.hpp"

namespace ferrule::collectives::verifier {

/// The k-th send between two ranks meets the k-th receive of the same chunk, and none is left over. Needs
/// schedules that check_form accepts.
void check_matching(std::span<const Schedule> schedules, Findings& findings);

/// All ranks reach their last step although a batch completes only when its peers have posted the
/// counterparts of all its sends and receives. Needs schedules that check_matching accepts.
void check_progress(std::span<const Schedule> schedules, Findings& findings);

/// Is it part of a batch?
constexpr bool moves_bytes(const Step& step) {
  return step.operation == Operation::send || step.operation == Operation::recv;
}

}  // namespace ferrule::collectives::verifier
