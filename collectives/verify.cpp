#include "collectives/verify.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <iterator>

#include "collectives/verify/findings.hpp"
#include "collectives/verify/matching.hpp"
#include "collectives/verify/replay.hpp"

namespace ferrule::collectives {
namespace {

using verifier::Findings;

std::uint32_t most_sends(std::span<const Schedule> schedules) {
  std::ptrdiff_t most = 0;
  for (const Schedule& schedule : schedules) {
    most = std::max(most, std::count_if(schedule.steps.begin(), schedule.steps.end(),
                                        [](const Step& step) { return step.operation == Operation::send; }));
  }
  return static_cast<std::uint32_t>(most);
}

// What a right outcome says beyond being right. All ranks that get a chunk have the same.
void measure(const verifier::Outcome& outcome, Report& report) {
  report.rank_order = reduces(outcome.contract.collective);
  for (std::size_t chunk = 0; chunk < outcome.outputs[0].size(); ++chunk) {
    const std::int32_t rank = outcome.first_to_get(chunk);
    if (rank < 0) continue;
    const verifier::Value& output = outcome.outputs[static_cast<std::size_t>(rank)][chunk];
    report.encodes = std::max(report.encodes, outcome.symbols.depth(output));
    outcome.symbols.depths(output, report.encodes_at);
    report.rank_order = report.rank_order && outcome.symbols.in_rank_order(output, outcome.outputs.size());
  }
}

void check_claims(const AlgorithmDesc& algorithm, const Topology& topology, Report& report) {
  const auto claim = [&](Fault fault, auto said, auto is) {
    if (said == is) return;
    report.findings.push_back({fault,
                               {},
                               fmt::format("{}: {} in a world of {} says {}, and it is {}", fault_name(fault),
                                           algorithm.name, topology.world(), said, is)});
  };
  claim(Fault::wrong_encodes_claim, algorithm.encodes(topology), report.encodes);
  // Level 0 of an algorithm that has no other is what was claimed already.
  const auto levels = std::max(topology.levels(), static_cast<std::uint32_t>(report.encodes_at.size()));
  for (std::uint32_t level = algorithm.uses_topology() ? 0 : 1; level < levels; ++level) {
    const std::uint32_t is = level < report.encodes_at.size() ? report.encodes_at[level] : 0;
    claim(Fault::wrong_encodes_claim, encodes_at(algorithm, topology, level), is);
  }
  claim(Fault::wrong_chunks_sent_claim, algorithm.chunks_sent(topology), report.chunks_sent);
  if (algorithm.rank_order) claim(Fault::wrong_order_claim, true, report.rank_order);
}

}  // namespace

std::string_view fault_name(Fault fault) {
  constexpr std::string_view kNames[] = {"malformed",
                                         "unmatched_send",
                                         "unmatched_recv",
                                         "chunk_mismatch",
                                         "level_mismatch",
                                         "deadlock",
                                         "slot_rewritten",
                                         "slot_unwritten",
                                         "slot_of_other_chunk",
                                         "slot_unused",
                                         "sum_empty",
                                         "sum_unused",
                                         "input_overwritten",
                                         "output_missing",
                                         "output_rewritten",
                                         "output_unwanted",
                                         "input_absent",
                                         "contribution_missing",
                                         "contribution_repeated",
                                         "replicas_differ",
                                         "residual_reused",
                                         "residual_unused",
                                         "error_dropped",
                                         "error_kept_twice",
                                         "noise_shared",
                                         "wrong_order_claim",
                                         "wrong_encodes_claim",
                                         "wrong_chunks_sent_claim"};
  static_assert(std::size(kNames) == static_cast<std::size_t>(Fault::wrong_chunks_sent_claim) + 1);
  const auto index = static_cast<std::size_t>(fault);
  return index < std::size(kNames) ? kNames[index] : std::string_view("unknown");
}

bool Report::has(Fault fault) const {
  return std::any_of(findings.begin(), findings.end(), [&](const Finding& f) { return f.fault == fault; });
}

Status Report::status() const {
  constexpr std::size_t kShown = 3;
  if (findings.empty()) return {};
  std::string text = fmt::format("the schedule is wrong ({} findings)", findings.size());
  for (std::size_t i = 0; i < std::min(findings.size(), kShown); ++i) text += "; " + findings[i].text;
  return Status(ErrorCode::internal, text);
}

Report verify(std::span<const Schedule> schedules) { return verify(schedules, Collective::all_reduce, 0); }

Report verify(std::span<const Schedule> schedules, Collective collective, std::int32_t root) {
  Report report;
  Findings findings(schedules);
  const Contract contract{collective, static_cast<std::int32_t>(schedules.size()), root};
  verifier::check_form(schedules, contract, findings);
  if (findings.empty()) verifier::check_matching(schedules, findings);
  if (findings.empty()) verifier::check_progress(schedules, findings);
  if (findings.empty()) {
    const verifier::Outcome outcome = verifier::replay(schedules, contract, findings);
    if (findings.empty()) {
      verifier::check_outcome(outcome, findings);
      report.chunks_sent = most_sends(schedules);
      if (findings.empty()) measure(outcome, report);
    }
  }
  report.findings = findings.take();
  return report;
}

Report verify(const AlgorithmDesc& algorithm, const Topology& topology, std::int32_t root) {
  Report report = verify(build_all(algorithm, topology, root), algorithm.collective, root);
  if (report.ok()) check_claims(algorithm, topology, report);
  return report;
}

std::vector<Schedule> build_all(const AlgorithmDesc& algorithm, const Topology& topology, std::int32_t root) {
  std::vector<Schedule> schedules;
  for (std::int32_t rank = 0; rank < topology.world(); ++rank) {
    schedules.push_back(build(algorithm, rank, topology, root));
  }
  return schedules;
}

}  // namespace ferrule::collectives
