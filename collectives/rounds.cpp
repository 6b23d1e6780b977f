#include "collectives/rounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

namespace ferrule::collectives {
namespace {

/// The messages from one rank to another, in order: the round of each that has been walked past.
using Channel = std::vector<std::uint32_t>;
using Channels = std::map<std::pair<std::int32_t, std::int32_t>, Channel>;

struct Message {
  std::int32_t peer = -1;
  std::size_t ordinal = 0;
};

/// One rank, on its way through its steps.
class Walker {
 public:
  Walker(Schedule schedule, Channels& channels)
      : schedule_(std::move(schedule)),
        channels_(channels),
        slots_(schedule_.slots),
        sums_(schedule_.chunks),
        sent_(schedule_.chunks) {}

  bool done() const { return next_ == schedule_.steps.size(); }

  /// Walks until a step reads what has no round yet. Returns whether it came any further.
  bool walk() {
    const std::size_t before = next_;
    while (!done() && take(schedule_.steps[next_])) ++next_;
    return next_ != before;
  }

  const std::vector<Step>& steps() const { return schedule_.steps; }
  const std::vector<std::uint32_t>& sends() const { return sends_; }
  /// Once all ranks are done.
  std::vector<std::uint32_t> receives() const {
    std::vector<std::uint32_t> rounds;
    for (const Message& message : received_) rounds.push_back(*round_of(message));
    return rounds;
  }

 private:
  struct Slot {
    std::uint32_t round = 0;
    std::optional<Message> message;  ///< received
  };

  std::optional<std::uint32_t> round_of(const Message& message) const {
    const auto found = channels_.find({message.peer, schedule_.rank});
    if (found == channels_.end() || found->second.size() <= message.ordinal) return std::nullopt;
    return found->second[message.ordinal];
  }

  /// When the slot's bytes are there.
  std::optional<std::uint32_t> ready(std::uint32_t slot) const {
    if (slot == kOwnInput) return 0;
    const Slot& where = slots_[slot];
    return where.message ? round_of(*where.message) : where.round;
  }

  bool take(const Step& step) {
    switch (step.operation) {
      case Operation::encode:
        // The encoded sum may stand where the chunk of the input stood: what was sent from there has gone.
        slots_[step.slot] = {step.from == kOwnInput ? 0 : std::max(sums_[step.chunk], sent_[step.chunk]), {}};
        if (step.from != kOwnInput) sums_[step.chunk] = 0;
        return true;
      case Operation::hop:
        return hop(step);
      case Operation::send:
        return send(step);
      case Operation::recv:
        receive(step);
        return true;
      case Operation::decode_add:
        return add(step);
      case Operation::decode:
        if (step.slot == kSum) sums_[step.chunk] = 0;
        return true;
    }
    return false;
  }

  bool hop(const Step& step) {
    const auto from = ready(step.from);
    if (!from) return false;
    slots_[step.slot] = {std::max(*from, sent_[step.chunk]), {}};
    return true;
  }

  bool send(const Step& step) {
    const auto from = ready(step.slot);
    if (!from) return false;
    const std::uint32_t round = *from + 1;
    channels_[{schedule_.rank, step.peer}].push_back(round);
    sends_.push_back(round);
    sent_[step.chunk] = std::max(sent_[step.chunk], round);
    return true;
  }

  void receive(const Step& step) {
    const Message message{step.peer, arriving_[step.peer]++};
    received_.push_back(message);
    slots_[step.slot] = {0, message};
  }

  bool add(const Step& step) {
    const auto from = ready(step.slot);
    if (!from) return false;
    sums_[step.chunk] = std::max(sums_[step.chunk], *from);
    return true;
  }

  Schedule schedule_;
  Channels& channels_;
  std::size_t next_ = 0;
  std::vector<Slot> slots_;
  std::vector<std::uint32_t> sums_;  ///< by chunk: when all that was added is there
  std::vector<std::uint32_t> sent_;  ///< by chunk: the last round that sends any of it
  std::vector<std::uint32_t> sends_;
  std::vector<Message> received_;
  std::map<std::int32_t, std::size_t> arriving_;
};

/// What a rank sends in one round.
struct Outgoing {
  std::uint32_t slot = 0;
  std::uint32_t chunk = 0;
  std::vector<char> reached;  ///< by rank
  bool simple = true;         ///< one slot, each peer once
};

std::map<std::uint32_t, Outgoing> outgoing_of(const Walker& walker, std::size_t world) {
  std::map<std::uint32_t, Outgoing> rounds;
  std::size_t number = 0;
  for (const Step& step : walker.steps()) {
    if (step.operation != Operation::send) continue;
    const std::uint32_t round = walker.sends()[number++];
    const auto [place, is_first] = rounds.try_emplace(round);
    Outgoing& outgoing = place->second;
    if (is_first) outgoing = {step.slot, step.chunk, std::vector<char>(world, 0), true};
    char& reached = outgoing.reached[static_cast<std::size_t>(step.peer)];
    outgoing.simple = outgoing.simple && outgoing.slot == step.slot && reached == 0;
    reached = 1;
  }
  return rounds;
}

std::vector<std::vector<std::uint32_t>> find_gathered(const std::vector<Walker>& walkers,
                                                      std::uint32_t count) {
  std::vector<std::vector<std::uint32_t>> gathered(count + 1);
  std::vector<char> possible(count + 1, 1);
  for (const Walker& walker : walkers) {
    const auto rounds = outgoing_of(walker, walkers.size());
    for (std::uint32_t round = 1; round <= count; ++round) {
      const auto found = rounds.find(round);
      const bool to_all = found != rounds.end() && found->second.simple &&
                          std::count(found->second.reached.begin(), found->second.reached.end(), 1) + 1 ==
                              static_cast<std::ptrdiff_t>(walkers.size());
      possible[round] = possible[round] != 0 && to_all ? 1 : 0;
      if (to_all) gathered[round].push_back(found->second.chunk);
    }
  }
  for (std::uint32_t round = 0; round <= count; ++round) {
    if (round == 0 || possible[round] == 0) gathered[round].clear();
  }
  return gathered;
}

}  // namespace

Result<Rounds> find_rounds(const AlgorithmDesc& algorithm, const Topology& topology, std::int32_t rank) {
  Channels channels;
  std::vector<Walker> walkers;
  for (std::int32_t each = 0; each < topology.world(); ++each) {
    walkers.emplace_back(algorithm.build(each, topology), channels);
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (Walker& walker : walkers) moved = walker.walk() || moved;
  }
  Rounds rounds;
  for (const Walker& walker : walkers) {
    if (!walker.done()) {
      return Status(ErrorCode::internal, fmt::format("{} of {} ranks: its messages wait for each other",
                                                     algorithm.name, topology.world()));
    }
    for (const std::uint32_t round : walker.sends()) rounds.count = std::max(rounds.count, round);
  }
  const Walker& own = walkers[static_cast<std::size_t>(rank)];
  rounds.sends = own.sends();
  rounds.receives = own.receives();
  rounds.gathered = find_gathered(walkers, rounds.count);
  return rounds;
}

}  // namespace ferrule::collectives
