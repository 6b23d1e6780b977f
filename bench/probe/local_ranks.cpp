#include "bench/probe/local_ranks.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/log.hpp"
#include "bench/ferrule_bench/child_processes.hpp"
#include "bench/ferrule_bench/exit_codes.hpp"
#include "bench/ferrule_bench/json_report.hpp"
#include "bench/ferrule_bench/meeting_place.hpp"
#include "bench/probe/json_report.hpp"
#include "bench/probe/report.hpp"
#include "bench/probe/session.hpp"
#include "rendezvous/memory_store.hpp"

namespace ferrule::probe {
namespace {

using bench::kExitFailed;
using bench::kExitOk;
using bench::kExitUsage;

/// What other ranks get to report a rank's death themselves before they are ended.
constexpr int kGraceMs = 3000;

/// Prints an error and says which exit code it deserves. `rank` is -1 where it is not known.
int tell_error(std::int32_t rank, const Status& status) {
  const std::string who = rank < 0 ? "" : fmt::format("rank {}: ", rank);
  fmt::print(stderr, "ferrule-probe: {}{}\n", who, status.text());
  const bool usage = status.code() == ErrorCode::invalid_argument || status.code() == ErrorCode::unsupported;
  return usage ? kExitUsage : kExitFailed;
}

/// In one step, so that nobody reads half a file.
Status save(const std::string& path, const std::string& text) {
  const std::string part = fmt::format("{}.part.{}", path, getpid());
  std::ofstream file(part, std::ios::trunc);
  file << text;
  file.close();
  if (!file.fail() && std::rename(part.c_str(), path.c_str()) == 0) return {};
  const int reason = errno;
  std::remove(part.c_str());
  return Status(ErrorCode::system, fmt::format("cannot write '{}': {}", path, std::strerror(reason)));
}

/// Prints and writes what was asked for.
Status tell(const Findings& findings, const Options& options, const std::string& command_line) {
  const std::string text = text_report(findings);
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
  if (!options.json_path.empty())
    FERRULE_RETURN_IF_ERROR(bench::write_json(json_report(findings, command_line), options.json_path));
  return options.save_path.empty() ? Status() : save(options.save_path, tuning_file(findings));
}

/// One rank, from its meeting to the report.
Status run_rank(Result<rendezvous::Meeting> meeting, const Options& options, const std::string& command_line,
                bool one_process) {
  FERRULE_RETURN_IF_ERROR(meeting.status());
  auto findings = probe(*meeting, options, one_process);
  FERRULE_RETURN_IF_ERROR(findings.status());
  return meeting->membership.rank == 0 ? tell(*findings, options, command_line) : Status();
}

/// Of the ranks' errors the one that explains the others: a rank that fails is lost to its peers.
int tell_first(const std::vector<Status>& ends) {
  std::size_t first = ends.size();
  for (std::size_t rank = 0; rank < ends.size(); ++rank) {
    if (ends[rank].ok()) continue;
    const bool is_cause = ends[rank].code() != ErrorCode::peer_lost;
    if (first == ends.size() || (is_cause && ends[first].code() == ErrorCode::peer_lost)) first = rank;
  }
  return first == ends.size() ? kExitOk : tell_error(static_cast<std::int32_t>(first), ends[first]);
}

int run_threads(const Options& options, const std::string& command_line) {
  const auto store = std::make_shared<rendezvous::MemoryStore>();
  std::vector<Status> ends(static_cast<std::size_t>(options.ranks));
  const auto body = [&](std::int32_t rank) {
    log::set_thread_rank(rank);
    Status& end = ends[static_cast<std::size_t>(rank)];
    try {
      end = run_rank(
          rendezvous::meet_through(store, {"probe", rank, options.ranks}, Deadline::after(options.timeout)),
          options, command_line, true);
    } catch (const std::exception& error) {
      end = Status(ErrorCode::system, error.what());
    }
  };
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < options.ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
  return tell_first(ends);
}

int run_processes(const Options& options, const std::string& command_line) {
  bench::MeetingPlace place("ferrule-probe");
  if (!place.ok()) return tell_error(-1, place.status());
  const std::string rendezvous = place.rendezvous();
  const auto body = [&](int rank) {
    log::set_thread_rank(rank);
    const Status end =
        run_rank(rendezvous::meet_at(rendezvous, rank, options.ranks, Deadline::after(options.timeout)),
                 options, command_line, false);
    return end.ok() ? kExitOk : tell_error(rank, end);
  };
  return bench::run_child_processes({options.ranks, kGraceMs, "ferrule-probe"}, body,
                                    [&] { place.remove(); });
}

int run_launched(const Options& options, const std::string& command_line) {
  auto world = rendezvous::world_from_environment();
  if (!world.ok()) return tell_error(-1, world.status());
  log::set_thread_rank(world->rank);
  const Status end =
      run_rank(rendezvous::meet(*world, Deadline::after(options.timeout)), options, command_line, false);
  return end.ok() ? kExitOk : tell_error(world->size == 1 ? -1 : world->rank, end);
}

}  // namespace

int run_ranks(const Options& options, const std::string& command_line) {
  if (options.ranks == 0) return run_launched(options, command_line);
  return options.transport == "loopback" ? run_threads(options, command_line)
                                         : run_processes(options, command_line);
}

}  // namespace ferrule::probe
