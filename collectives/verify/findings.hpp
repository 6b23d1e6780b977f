// Collects findings and words them alike.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/verify.hpp"

namespace ferrule::collectives::verifier {

class Findings {
 public:
  explicit Findings(std::span<const Schedule> schedules) : schedules_(schedules) {}

  /// "slot_unwritten: rank 2, step 7 (chunk 1: send slot 3 to rank 0): <reason>"
  void add(Fault fault, Place place, const std::string& reason);
  bool empty() const { return findings_.empty(); }
  std::vector<Finding> take() { return std::move(findings_); }

  /// "rank 2, step 7"
  static std::string where(Place place);

 private:
  std::span<const Schedule> schedules_;
  std::vector<Finding> findings_;
};

/// Fields in range, and schedules that belong together. Everything after it may index by what it has checked.
void check_form(std::span<const Schedule> schedules, const Contract& contract, Findings& findings);

}  // namespace ferrule::collectives::verifier
