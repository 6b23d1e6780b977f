#include "collectives/verify/matching.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace ferrule::collectives::verifier {
namespace {

using Pair = std::pair<std::int32_t, std::int32_t>;  // source, destination

Pair pair_of(const Step& step, std::int32_t rank) {
  return step.operation == Operation::send ? Pair{rank, step.peer} : Pair{step.peer, rank};
}

// One direction between two ranks: its sends and receives in order.
struct Channel {
  std::vector<Place> sends;
  std::vector<Place> recvs;
};

std::map<Pair, Channel> channels_of(std::span<const Schedule> schedules) {
  std::map<Pair, Channel> channels;
  for (const Schedule& schedule : schedules) {
    for (std::size_t i = 0; i < schedule.steps.size(); ++i) {
      const Step& step = schedule.steps[i];
      if (!moves_bytes(step)) continue;
      Channel& channel = channels[pair_of(step, schedule.rank)];
      auto& list = step.operation == Operation::send ? channel.sends : channel.recvs;
      list.push_back({schedule.rank, static_cast<std::int32_t>(i)});
    }
  }
  return channels;
}

void check_channel(std::span<const Schedule> schedules, const Channel& channel, Findings& findings) {
  const auto chunk_at = [&](Place place) { return schedules[place.rank].steps[place.step].chunk; };
  const std::size_t both = std::min(channel.sends.size(), channel.recvs.size());
  for (std::size_t k = 0; k < both; ++k) {
    const std::uint32_t chunk = chunk_at(channel.recvs[k]);
    if (chunk_at(channel.sends[k]) == chunk) continue;
    findings.add(
        Fault::chunk_mismatch, channel.sends[k],
        fmt::format("{}, which it meets, expects chunk {}", Findings::where(channel.recvs[k]), chunk));
    return;  // what follows on this channel is a consequence
  }
  if (channel.sends.size() > both) {
    findings.add(Fault::unmatched_send, channel.sends[both],
                 fmt::format("the peer receives {} times from it, and this is send {}", both, both + 1));
  }
  if (channel.recvs.size() > both) {
    findings.add(Fault::unmatched_recv, channel.recvs[both],
                 fmt::format("the peer sends {} times to it, and this is receive {}", both, both + 1));
  }
}

// Walks all ranks from batch to batch. A batch is [begin, end) of a rank's steps.
class Progress {
 public:
  Progress(std::span<const Schedule> schedules, Findings& findings)
      : schedules_(schedules), findings_(findings), ranks_(schedules.size()) {}

  void run() {
    std::vector<std::int32_t> awake;
    for (const Schedule& schedule : schedules_) {
      post_next(schedule.rank, awake);
      awake.push_back(schedule.rank);
    }
    while (!awake.empty()) {
      const std::int32_t rank = awake.back();
      awake.pop_back();
      while (!finished(rank) && first_waiting(rank) < 0) {
        ranks_[rank].begin = ranks_[rank].end;
        post_next(rank, awake);
      }
    }
    for (const Schedule& schedule : schedules_) report_if_stuck(schedule.rank);
  }

 private:
  struct Rank {
    std::size_t begin = 0;
    std::size_t end = 0;
    std::vector<std::uint32_t> ordinals;  // of the batch's steps on their channels
  };
  struct Posted {
    std::uint32_t sends = 0;
    std::uint32_t recvs = 0;
  };

  const std::vector<Step>& steps(std::int32_t rank) const { return schedules_[rank].steps; }
  bool finished(std::int32_t rank) const { return ranks_[rank].begin == steps(rank).size(); }

  // Finds and posts the next batch, and wakes its peers.
  void post_next(std::int32_t rank, std::vector<std::int32_t>& awake) {
    Rank& state = ranks_[rank];
    const auto& all = steps(rank);
    while (state.begin < all.size() && !moves_bytes(all[state.begin])) ++state.begin;
    state.ordinals.clear();
    for (state.end = state.begin; state.end < all.size() && moves_bytes(all[state.end]); ++state.end) {
      const Step& step = all[state.end];
      Posted& posted = posted_[pair_of(step, rank)];
      state.ordinals.push_back(step.operation == Operation::send ? posted.sends++ : posted.recvs++);
      awake.push_back(step.peer);
    }
  }

  // The first step of the batch whose counterpart is not posted; -1 if the batch is complete.
  std::int32_t first_waiting(std::int32_t rank) {
    const Rank& state = ranks_[rank];
    for (std::size_t i = state.begin; i < state.end; ++i) {
      const Step& step = steps(rank)[i];
      const Posted& posted = posted_[pair_of(step, rank)];
      const std::uint32_t there = step.operation == Operation::send ? posted.recvs : posted.sends;
      if (there <= state.ordinals[i - state.begin]) return static_cast<std::int32_t>(i);
    }
    return -1;
  }

  void report_if_stuck(std::int32_t rank) {
    if (finished(rank)) return;
    const std::int32_t waiting = first_waiting(rank);
    const std::int32_t peer = steps(rank)[static_cast<std::size_t>(waiting)].peer;
    findings_.add(Fault::deadlock, {rank, waiting},
                  fmt::format("waits for rank {}, which is held up in the batch that begins at step {}", peer,
                              ranks_[peer].begin));
  }

  std::span<const Schedule> schedules_;
  Findings& findings_;
  std::vector<Rank> ranks_;
  std::map<Pair, Posted> posted_;
};

}  // namespace

void check_matching(std::span<const Schedule> schedules, Findings& findings) {
  for (const auto& [pair, channel] : channels_of(schedules)) check_channel(schedules, channel, findings);
}

void check_progress(std::span<const Schedule> schedules, Findings& findings) {
  Progress(schedules, findings).run();
}

}  // namespace ferrule::collectives::verifier
