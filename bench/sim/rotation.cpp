#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "bench/sim/wiring.hpp"

namespace ferrule::sim {
namespace {

constexpr std::int32_t kCheckAllUpTo = 64;  // ranks

std::int32_t moved(std::int32_t rank, std::int32_t by, std::int32_t world) {
  return static_cast<std::int32_t>((static_cast<std::int64_t>(rank) + by + world) % world);
}

bool same_messages(const std::vector<Message>& a, const std::vector<Message>& b, std::int32_t by,
                   std::int32_t world) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [&](const Message& x, const Message& y) {
    return moved(x.peer, by, world) == y.peer && x.ordinal == y.ordinal;
  });
}

double work_of(const Program& program) {
  double work = 0;
  for (const Action& action : program.actions) work += action.ns_per_byte;
  return work;
}

// Chunks are left out: all are equal here.
bool same_actions(const std::vector<Action>& a, const std::vector<Action>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const Action& x, const Action& y) {
    return x.ns_per_byte == y.ns_per_byte && x.send == y.send && x.level == y.level &&
           x.first_need == y.first_need && x.need_count == y.need_count;
  });
}

/// Is b what a becomes when all ranks are moved on?
Likeness likeness(const Program& a, const Program& b, std::int32_t by, std::int32_t world) {
  const bool messages =
      same_messages(a.sends, b.sends, by, world) && same_messages(a.receives, b.receives, by, world);
  if (!messages) return Likeness::none;
  if (same_actions(a.actions, b.actions) && a.needs == b.needs) return Likeness::exact;
  const double work[] = {work_of(a), work_of(b)};
  const bool near = a.actions.size() == b.actions.size() && a.needs.size() == b.needs.size() &&
                    std::abs(work[0] - work[1]) <= 1e-9 * std::max(work[0], work[1]);
  return near ? Likeness::near : Likeness::none;
}

/// Ranks that are compared with their representative.
std::set<std::int32_t> samples(std::int32_t world, std::int32_t period) {
  std::set<std::int32_t> ranks;
  if (world <= kCheckAllUpTo) {
    for (std::int32_t rank = period; rank < world; ++rank) ranks.insert(rank);
    return ranks;
  }
  const std::int32_t groups = world / period;
  std::int32_t inside = 0;
  for (const std::int32_t group : {1, groups / 3, groups / 2, groups - 1}) {
    ranks.insert(group * period + inside);
    inside = (inside + 1) % period;
  }
  return ranks;
}

Result<Likeness> compare(const Place& place, const ProgramOf& program_of,
                         const std::vector<Walker>& walkers) {
  const auto period = static_cast<std::int32_t>(walkers.size());
  Likeness all = Likeness::exact;
  for (const std::int32_t rank : samples(place.world, period)) {
    auto program = program_of(rank);
    FERRULE_RETURN_IF_ERROR(program.status());
    const std::int32_t first = rank % period;
    all = std::min(all, likeness(walkers[first].program, *program, rank - first, place.world));
    if (all == Likeness::none) break;
  }
  return all;
}

// A message to rank p ends at p's representative, which sees its sender moved back with p.
Status connect(const Place& place, Network& network) {
  const auto period = static_cast<std::int32_t>(network.walkers.size());
  std::vector<ReceiveIndex> receives;
  for (const Walker& walker : network.walkers) receives.emplace_back(walker.program);
  Fabric fabric(place, network);
  for (Walker& walker : network.walkers) {
    for (const Message& message : walker.program.sends) {
      const std::int32_t target = message.peer % period;
      Wire wire = fabric.wire(walker.rank, message.peer, target);
      wire.walker = static_cast<std::uint32_t>(target);
      wire.receive =
          receives[wire.walker].find(moved(walker.rank, target - message.peer, place.world), message.ordinal);
      if (wire.receive == kNoMessage) return unreceived(walker, message);
      walker.wires.push_back(wire);
    }
  }
  return {};
}

}  // namespace

Result<Network> rotation_network(const Place& place, const ProgramOf& program_of, Likeness& likeness) {
  Network network;
  const std::int32_t period = place.levels.period();
  likeness = Likeness::none;
  if (place.world % period != 0 || place.world < 2 * period) return network;
  for (std::int32_t rank = 0; rank < period; ++rank) {
    auto program = program_of(rank);
    FERRULE_RETURN_IF_ERROR(program.status());
    Walker& walker = network.walkers.emplace_back();
    walker.rank = rank;
    walker.ranks = static_cast<double>(place.world / period);
    walker.program = std::move(program).value();
  }
  auto compared = compare(place, program_of, network.walkers);
  FERRULE_RETURN_IF_ERROR(compared.status());
  likeness = *compared;
  if (likeness == Likeness::none) return network;
  FERRULE_RETURN_IF_ERROR(connect(place, network));
  return network;
}

}  // namespace ferrule::sim
