// Executes the schedules of all ranks with symbolic values.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/verify/findings.hpp"
#include "collectives/verify/symbols.hpp"

namespace ferrule::collectives::verifier {

struct Outcome {
  Contract contract;
  Symbols symbols;
  std::vector<std::vector<Value>> outputs;  ///< by rank and chunk; empty where the rank does not get it

  /// The lowest rank that gets the chunk; -1: nobody.
  std::int32_t first_to_get(std::size_t chunk) const;
};

/// Stops at the first finding; then the outcome is incomplete. Needs schedules that check_form,
/// check_matching and check_progress accept.
Outcome replay(std::span<const Schedule> schedules, const Contract& contract, Findings& findings);

/// Contributions, identity of the replicas, and who keeps which error. Needs a complete outcome.
void check_outcome(const Outcome& outcome, Findings& findings);

}  // namespace ferrule::collectives::verifier
