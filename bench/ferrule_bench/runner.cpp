#include "bench/ferrule_bench/runner.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <map>

#include "bench/ferrule_bench/case_list.hpp"
#include "bench/ferrule_bench/check.hpp"
#include "bench/ferrule_bench/check_operation.hpp"
#include "bench/ferrule_bench/exchange.hpp"
#include "bench/ferrule_bench/git_version.hpp"
#include "bench/ferrule_bench/json_report.hpp"
#include "bench/ferrule_bench/measure.hpp"

namespace ferrule::bench {
namespace {

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  return std::string(text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc));
}

std::size_t name_width(const CaseList& list) {
  std::size_t width = std::string_view("codec algorithm").size();
  for (const CaseGroup& group : list.groups) {
    for (const Case& what : group.cases)
      width = std::max(width, what.codec.size() + 1 + what.algorithm.size());
  }
  return width;
}

class Runner {
 public:
  Runner(const Communicator& comm, const Options& options, const std::string& command_line)
      : comm_(comm), options_(options), transport_(comm.transport()) {
    run_.machine = describe_machine();
    run_.command_line = command_line;
    run_.ferrule_version = ferruleVersion();
    run_.ferrule_info = ferruleInfo();
    run_.git = kGitVersion;
    run_.started = utc_now();
  }

  Result<RankOutcome> run();

 private:
  Status print_heading(const CaseList& list);
  Status check_memory(const CaseList& list) const;
  Status run_group(Workspace& workspace, const CaseGroup& group, std::uint64_t bytes);
  Result<std::vector<CaseState>> states_of(const CaseGroup& group, std::uint64_t count) const;
  Status measure_place(Workspace& workspace, std::vector<CaseState>& states, Place place,
                       std::vector<CaseResult>& results) const;
  Status find_choices(Workspace& workspace, std::vector<CaseState>& states,
                      std::vector<CaseResult>& results) const;
  Status find_memory();
  Status find_raw_wire_bytes(Workspace& workspace, std::vector<CaseResult>& results) const;
  void print_footer();
  /// Rank 0 speaks for all.
  void print(const std::string& text) const;

  const Communicator& comm_;
  const Options& options_;
  std::string transport_;
  RunDescription run_;
  std::vector<CaseResult> results_;
  std::size_t name_width_ = 0;  ///< of the table's column of codec and algorithm
};

void Runner::print(const std::string& text) const {
  if (comm_.rank() != 0) return;
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Status Runner::print_heading(const CaseList& list) {
  const std::string own =
      fmt::format("{} {} {}", static_cast<int>(getpid()), run_.machine.host, run_.machine.cpu);
  auto texts = gather_texts(comm_, own);
  if (!texts.ok()) return texts.status();
  std::vector<DeviceLine> devices;
  for (const std::string& text : *texts) {
    const auto host = text.find(' ') + 1;
    const auto name = text.find(' ', host);
    devices.push_back({static_cast<int>(devices.size()), std::atoi(text.c_str()),
                       text.substr(host, name - host), text.substr(std::min(name + 1, text.size()))});
  }
  print(run_header({options_.sizes, options_.warmup_iters, options_.iters, options_.agg_iters,
                    options_.check_iters, options_.blocking}) +
        device_lines(devices));
  print(fmt::format("#\n# ferrule {} transport {} ranks {} error feedback {}{}\n", run_.ferrule_version,
                    transport_, comm_.size(), options_.error_feedback ? "on" : "off",
                    (options_.link.empty() ? "" : " link " + options_.link) +
                        (options_.jitter ? " jitter " + options_.jitter->text : "")));
  print(
      "# #wrong: elements outside the codec's documented bound. busbw is effective: on uncompressed "
      "bytes.\n");
  if (comm_.size() == 1)
    print("# one rank alone sends nothing: start more with --ranks N, or under a launcher\n");
  if (options_.operation != Operation::all_reduce) {
    print(fmt::format("# operation {}{}\n", name(options_.operation),
                      is_apart(options_.operation) ? ": never in place, both halves are out of place" : ""));
  }
  for (const std::string& line : list.skipped) print("# skipped: " + line + "\n");
  name_width_ = name_width(list);
  print(table_header(name_width_));
  return {};
}

/// Better a clear text now than the kernel killing a rank later.
Status Runner::check_memory(const CaseList& list) const {
  std::uint64_t residual_tensors = 0;
  for (const CaseGroup& group : list.groups) {
    const auto with = std::count_if(group.cases.begin(), group.cases.end(),
                                    [](const Case& what) { return what.error_feedback; });
    residual_tensors = std::max<std::uint64_t>(residual_tensors, static_cast<std::uint64_t>(with));
  }
  const auto lanes = static_cast<std::uint64_t>(options_.agg_iters);
  const std::uint64_t tensors = 1 + lanes * (1 + residual_tensors);
  const auto ranks_here = static_cast<std::uint64_t>(std::max(options_.ranks, 1));
  const std::uint64_t room = available_memory_bytes();
  if (room == 0 || options_.sizes.max_bytes <= room / tensors / ranks_here) return {};
  return Status(
      ErrorCode::system,
      fmt::format(
          "{} ranks on this machine with {} tensors of {} bytes each need more than the {} bytes that "
          "are free; choose a smaller -e, -m or --ranks",
          ranks_here, tensors, options_.sizes.max_bytes, room));
}

Result<std::vector<CaseState>> Runner::states_of(const CaseGroup& group, std::uint64_t count) const {
  std::vector<CaseState> states;
  for (Case what : group.cases) {
    what.count = count;
    if (what.lossy) {
      auto codec = Codec::create(std::string(without_auto(what.codec)));
      if (!codec.ok()) return codec.status();
      what.block = std::max<std::size_t>(1, codec->block());
    }
    auto state = CaseState::create(what, options_.agg_iters);
    if (!state.ok()) return state.status();
    states.push_back(std::move(*state));
  }
  return states;
}

Status Runner::measure_place(Workspace& workspace, std::vector<CaseState>& states, Place place,
                             std::vector<CaseResult>& results) const {
  auto timings = measure(comm_, options_, workspace, states, place);
  if (!timings.ok()) return timings.status();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const bool in_place = place == Place::in_place;
    (in_place ? results[i].in_place : results[i].out_of_place) = std::move((*timings)[i]);
    if (options_.check_iters == 0) continue;
    const bool sums = states[i].what.operation == Operation::all_reduce;
    auto verdict = sums ? check(comm_, options_, workspace, states[i], place)
                        : check_operation(comm_, options_, workspace, states[i], place);
    if (!verdict.ok()) return verdict.status();
    (in_place ? results[i].in_place_verdict : results[i].out_of_place_verdict) = *verdict;
  }
  return {};
}

Status Runner::find_choices(Workspace& workspace, std::vector<CaseState>& states,
                            std::vector<CaseResult>& results) const {
  for (std::size_t i = 0; i < states.size(); ++i) {
    auto choice = workspace.find_choice(states[i]);
    if (!choice.ok()) return choice.status();
    results[i].codec_ran = choice->codec;
    results[i].algorithm_ran = choice->algorithm;
  }
  return {};
}

Status Runner::find_memory() {
  const std::vector mine{static_cast<std::int64_t>(comm_.stats().scratch_bytes),
                         static_cast<std::int64_t>(peak_resident_bytes())};
  auto largest = combine(comm_, mine, ReduceOp::max);
  if (!largest.ok()) return largest.status();
  run_.memory = {static_cast<std::uint64_t>((*largest)[0]), static_cast<std::uint64_t>((*largest)[1])};
  return {};
}

Status Runner::find_raw_wire_bytes(Workspace& workspace, std::vector<CaseResult>& results) const {
  std::map<std::string, std::uint64_t> known;  // by algorithm
  for (CaseResult& result : results) {
    if (!known.contains(result.what.algorithm)) {
      auto bytes = raw_wire_bytes(comm_, workspace, result.what);
      if (!bytes.ok()) return bytes.status();
      known[result.what.algorithm] = *bytes;
    }
    result.raw_wire_bytes = known[result.what.algorithm];
  }
  return {};
}

Status Runner::run_group(Workspace& workspace, const CaseGroup& group, std::uint64_t bytes) {
  std::uint64_t count = bytes / element_bytes(group.dtype);
  if (has_parts(options_.operation)) count -= count % static_cast<std::uint64_t>(comm_.size());
  auto states = states_of(group, count);
  if (!states.ok()) return states.status();
  workspace.fill(data_of(states->front().what, options_, comm_.size()), count);
  std::vector<CaseResult> results(states->size());
  for (std::size_t i = 0; i < results.size(); ++i) {
    results[i].what = (*states)[i].what;
    results[i].ranks = comm_.size();
    results[i].transport = transport_;
  }
  FERRULE_RETURN_IF_ERROR(measure_place(workspace, *states, Place::out_of_place, results));
  FERRULE_RETURN_IF_ERROR(measure_place(workspace, *states, Place::in_place, results));
  FERRULE_RETURN_IF_ERROR(find_choices(workspace, *states, results));
  FERRULE_RETURN_IF_ERROR(find_raw_wire_bytes(workspace, results));
  for (CaseResult& result : results) {
    print(table_row(table_row_of(result), name_width_));
    results_.push_back(std::move(result));
  }
  return {};
}

void Runner::print_footer() {
  Footer footer;
  double sum = 0;
  for (const CaseResult& result : results_) {
    if (const auto verdict = result.verdict()) footer.wrong += verdict->wrong;
    sum += result.busbw_gbps(result.out_of_place) + result.busbw_gbps(result.in_place);
  }
  footer.mean_busbw_gbps = sum / (2.0 * static_cast<double>(results_.size()));
  const auto differing = std::count_if(results_.begin(), results_.end(), [](const CaseResult& result) {
    const auto verdict = result.verdict();
    return verdict && !verdict->identical;
  });
  if (differing > 0)
    print(fmt::format("# Ranks hold different bits in {} of {} rows\n", differing, results_.size()));
  print(memory_line(run_.memory));
  print(table_footer(footer));
}

Result<RankOutcome> Runner::run() {
  if (options_.jitter && options_.jitter->rank >= comm_.size()) {
    return Status(ErrorCode::invalid_argument, fmt::format("--jitter {}: there are {} ranks, from 0",
                                                           options_.jitter->text, comm_.size()));
  }
  if (options_.root < 0 || options_.root >= comm_.size()) {
    return Status(ErrorCode::invalid_argument,
                  fmt::format("--root {}: there are {} ranks, from 0", options_.root, comm_.size()));
  }
  auto list = list_cases(options_);
  if (!list.ok()) return list.status();
  auto sizes = sweep(options_.sizes);
  if (!sizes.ok()) return sizes.status();
  FERRULE_RETURN_IF_ERROR(check_memory(*list));
  auto workspace = Workspace::create(comm_, options_, options_.sizes.max_bytes);
  if (!workspace.ok()) return workspace.status();
  FERRULE_RETURN_IF_ERROR(print_heading(*list));
  for (const CaseGroup& group : list->groups) {
    for (const std::uint64_t bytes : *sizes) FERRULE_RETURN_IF_ERROR(run_group(*workspace, group, bytes));
  }
  FERRULE_RETURN_IF_ERROR(find_memory());
  print_footer();
  if (comm_.rank() == 0 && !options_.json_path.empty())
    FERRULE_RETURN_IF_ERROR(write_json(json_report(run_, options_, results_), options_.json_path));
  const bool passed =
      std::all_of(results_.begin(), results_.end(), [](const auto& result) { return result.passed(); });
  return RankOutcome{comm_.rank(), passed};
}

}  // namespace

Result<RankOutcome> run_rank(const Communicator& comm, const Options& options,
                             const std::string& command_line) {
  return Runner(comm, options, command_line).run();
}

}  // namespace ferrule::bench
