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

// What a right outcome says beyond being right. All ranks' outputs are those of rank 0.
void measure(const verifier::Outcome& outcome, Report& report) {
  report.rank_order = true;
  for (const verifier::Value& output : outcome.outputs[0]) {
    report.encodes = std::max(report.encodes, outcome.symbols.depth(output));
    report.rank_order = report.rank_order && outcome.symbols.in_rank_order(output, outcome.outputs.size());
  }
}

void check_claims(const AlgorithmDesc& algorithm, std::int32_t world, Report& report) {
  const auto claim = [&](Fault fault, auto said, auto is) {
    if (said == is) return;
    report.findings.push_back({fault,
                               {},
                               fmt::format("{}: {} in a world of {} says {}, and it is {}", fault_name(fault),
                                           algorithm.name, world, said, is)});
  };
  claim(Fault::wrong_encodes_claim, algorithm.encodes(world), report.encodes);
  claim(Fault::wrong_chunks_sent_claim, algorithm.chunks_sent(world), report.chunks_sent);
  if (algorithm.rank_order) claim(Fault::wrong_order_claim, true, report.rank_order);
}

}  // namespace

std::string_view fault_name(Fault fault) {
  constexpr std::string_view kNames[] = {"malformed",
                                         "unmatched_send",
                                         "unmatched_recv",
                                         "chunk_mismatch",
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

Report verify(std::span<const Schedule> schedules) {
  Report report;
  Findings findings(schedules);
  verifier::check_form(schedules, findings);
  if (findings.empty()) verifier::check_matching(schedules, findings);
  if (findings.empty()) verifier::check_progress(schedules, findings);
  if (findings.empty()) {
    const verifier::Outcome outcome = verifier::replay(schedules, findings);
    if (findings.empty()) {
      verifier::check_outcome(outcome, findings);
      report.chunks_sent = most_sends(schedules);
      if (findings.empty()) measure(outcome, report);
    }
  }
  report.findings = findings.take();
  return report;
}

Report verify(const AlgorithmDesc& algorithm, std::int32_t world) {
  Report report = verify(build_all(algorithm, world));
  if (report.ok()) check_claims(algorithm, world, report);
  return report;
}

std::vector<Schedule> build_all(const AlgorithmDesc& algorithm, std::int32_t world) {
  std::vector<Schedule> schedules;
  for (std::int32_t rank = 0; rank < world; ++rank) schedules.push_back(algorithm.build(rank, world));
  return schedules;
}

}  // namespace ferrule::collectives
