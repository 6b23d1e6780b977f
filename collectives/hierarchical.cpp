// Hierarchical: sums go up a tree of groups (ranks into nodes, nodes into groups of nodes, ...), each level
// in its own codec, and the encoded result comes down the same way, its bytes unchanged.
//
// K. Hasanov and A. Lastovetsky, "Hierarchical redesign of classic MPI reduction algorithms", Journal of
// Supercomputing 73, 2017, survey the idea. Here every rank of a node takes part in the exchange between
// nodes, with a part of the tensor, so that all network cards and cores work:
//
// * At each level, a chunk of a group is led by one of its members, and in that member by one of its members,
//   down to a rank. A leader collects the sums of the other members' leaders of the same chunk and adds them.
// * Leaders take turns by the chunk's number: its lowest digit (in base of the world's members) says which
// member
//   of the world leads, the next one which member inside each of those, and so on. Members of different sizes
//   need no more than that: chunk c of a node of 1 and of a node of 3 has one leader in each.
// * A rank leads a chunk up to some level, encodes the sum once for the next, and is done: each (rank, chunk)
//   is encoded exactly once, so one residual is enough.
//
// Between nodes this is `direct` among leaders: for each chunk every node sends its sum to one node. Bytes
// that cross a node's boundary, for a tensor of B encoded bytes and M nodes: 2 (M-1)/M * B each way, whatever
// the ranks inside.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

// Who leads which chunk.
class Leaders {
 public:
  explicit Leaders(const Topology& topology)
      : topology_(topology), chunks_(periods(topology.levels() - 1).front()) {}

  std::uint32_t chunks() const { return chunks_; }
  /// What is left of a chunk's number for the members of a group, and which of them leads.
  std::uint32_t key_inside(std::uint32_t level, std::int32_t group, std::uint32_t key) const {
    return key / static_cast<std::uint32_t>(topology_.size(level, group));
  }
  std::int32_t leading_member(std::uint32_t level, std::int32_t group, std::uint32_t key) const {
    const auto size = static_cast<std::uint32_t>(topology_.size(level, group));
    return topology_.member(level, group, static_cast<std::int32_t>(key % size));
  }
  /// The rank that leads a member of a group of this level; `key` is the group's.
  std::int32_t rank_of_member(std::uint32_t level, std::int32_t group, std::int32_t member,
                              std::uint32_t key) const {
    while (level > 0) {
      key = key_inside(level, group, key);
      group = member;
      --level;
      member = leading_member(level, group, key);
    }
    return member;
  }
  std::int32_t leader(std::uint32_t level, std::int32_t group, std::uint32_t key) const {
    return rank_of_member(level, group, leading_member(level, group, key), key);
  }

 private:
  // By group of the level: after how many chunks its leaders repeat, so that all have led equally often.
  // Where members' sizes have a large common multiple, four times the largest: nobody leads more than 5/4 of
  // its share then.
  std::vector<std::uint32_t> periods(std::uint32_t level) const {
    constexpr std::uint64_t kRounds = 4;
    const std::vector<std::uint32_t> inside = level == 0 ? std::vector<std::uint32_t>() : periods(level - 1);
    std::vector<std::uint32_t> all;
    for (std::int32_t group = 0; group < topology_.groups(level); ++group) {
      std::uint64_t common = 1;
      std::uint64_t largest = 1;
      const std::int32_t size = topology_.size(level, group);
      for (std::int32_t i = 0; i < size && level > 0; ++i) {
        const std::uint64_t one = inside[static_cast<std::size_t>(topology_.member(level, group, i))];
        largest = std::max(largest, one);
        // The bound is that of the end, so that the order of members does not matter below it.
        if (common != 0) common = std::lcm(common, one);
        if (common > kRounds * static_cast<std::uint64_t>(topology_.world())) common = 0;
      }
      if (common == 0 || common > kRounds * largest) common = kRounds * largest;
      all.push_back(static_cast<std::uint32_t>(common) * static_cast<std::uint32_t>(size));
    }
    return all;
  }

  const Topology& topology_;
  std::uint32_t chunks_;
};

// Writes the steps of one rank.
class Walk {
 public:
  Walk(std::int32_t rank, const Topology& topology)
      : topology_(topology),
        leaders_(topology),
        levels_(topology.levels()),
        result_level_(topology.result_level()),
        builder_(rank, topology.world(), leaders_.chunks()),
        keys_(std::size_t{leaders_.chunks()} * levels_),
        slots_(leaders_.chunks()) {
    for (std::int32_t member = rank; groups_.size() < levels_; member = groups_.back()) {
      members_.push_back(member);
      groups_.push_back(topology.group_of(static_cast<std::uint32_t>(groups_.size()), member));
    }
    for (std::uint32_t chunk = 0; chunk < leaders_.chunks(); ++chunk) parts_.push_back(part_in(chunk));
  }

  Schedule build() {
    for (std::uint32_t level = 0; level < levels_; ++level) go_up(level);
    for (const Part& part : parts_) {
      if (part.leads == levels_) slots_[part.chunk] = builder_.encode_sum(part.chunk, result_level_);
    }
    for (std::uint32_t level = levels_; level-- > 0;) go_down(level);
    for (Part& part : parts_) {
      if (!part.decoded) decode(part);
    }
    return builder_.take();
  }

 private:
  // This rank's part in a chunk.
  struct Part {
    std::uint32_t chunk = 0;
    std::uint32_t leads = 0;  // its groups of the levels below this one
    bool summed = false;      // the sum holds the own input and more
    bool decoded = false;
  };

  Part part_in(std::uint32_t chunk) {
    std::uint32_t left = chunk;
    for (std::uint32_t level = levels_; level-- > 0;) {
      keys_[chunk * levels_ + level] = left;
      left = leaders_.key_inside(level, groups_[level], left);
    }
    Part part{.chunk = chunk};
    const auto leads = [&](std::uint32_t level) {
      return leaders_.leading_member(level, groups_[level], key(chunk, level)) == members_[level];
    };
    while (part.leads < levels_ && leads(part.leads)) ++part.leads;
    return part;
  }

  // The chunk's key for the rank's group.
  std::uint32_t key(std::uint32_t chunk, std::uint32_t level) const { return keys_[chunk * levels_ + level]; }

  std::int32_t size(std::uint32_t level) const { return topology_.size(level, groups_[level]); }

  // The rank's place among the members of its group.
  std::int32_t own_index(std::uint32_t level) const {
    std::int32_t index = 0;
    while (topology_.member(level, groups_[level], index) != members_[level]) ++index;
    return index;
  }

  std::int32_t peer(std::uint32_t chunk, std::uint32_t level, std::int32_t index) const {
    const std::int32_t member = topology_.member(level, groups_[level], index);
    return leaders_.rank_of_member(level, groups_[level], member, key(chunk, level));
  }

  // What there is to do at a level: the chunks that the rank leads on, and the others by who leads them.
  struct Agenda {
    std::vector<std::uint32_t> led;
    std::vector<std::vector<std::uint32_t>> by_leader;  // by index among the members
  };

  Agenda agenda(std::uint32_t level) const {
    Agenda agenda;
    agenda.by_leader.resize(static_cast<std::size_t>(size(level)));
    for (const Part& part : parts_) {
      if (part.leads > level) agenda.led.push_back(part.chunk);
      if (part.leads != level) continue;
      agenda.by_leader[key(part.chunk, level) % agenda.by_leader.size()].push_back(part.chunk);
    }
    return agenda;
  }

  // Encodes and sends what the rank leads no further, collects what it leads on, and adds it.
  void go_up(std::uint32_t level) {
    const std::int32_t own = own_index(level);
    const std::int32_t members = size(level);
    const Agenda agenda = this->agenda(level);
    for (const auto& chunks : agenda.by_leader) {
      for (const std::uint32_t chunk : chunks) {
        slots_[chunk] =
            parts_[chunk].summed ? builder_.encode_sum(chunk, level) : builder_.encode_input(chunk, level);
      }
    }
    // By distance, so that no member is everybody's first target.
    std::vector<std::vector<std::uint32_t>> collected(static_cast<std::size_t>(members));
    for (std::int32_t i = 1; i < members; ++i) {
      const std::int32_t target = wrap(own + i, members);
      for (const std::uint32_t chunk : agenda.by_leader[static_cast<std::size_t>(target)]) {
        builder_.send(peer(chunk, level, target), chunk, slots_[chunk]);
      }
      const std::int32_t source = wrap(own - i, members);
      for (const std::uint32_t chunk : agenda.led) {
        const std::uint32_t slot = builder_.recv(peer(chunk, level, source), chunk, level);
        collected[static_cast<std::size_t>(source)].push_back(slot);
      }
    }
    if (members == 1) return;
    for (std::size_t k = 0; k < agenda.led.size(); ++k) {
      std::vector<std::uint32_t> terms(static_cast<std::size_t>(members), kOwnInput);
      for (std::size_t i = 0; i < terms.size(); ++i) {
        if (!collected[i].empty()) terms[i] = collected[i][k];
      }
      add(parts_[agenda.led[k]], terms);
    }
  }

  // In the order of members: the own sum first if it has begun already, the own input in its place.
  void add(Part& part, const std::vector<std::uint32_t>& terms) {
    for (const std::uint32_t term : terms) {
      if (term != kOwnInput || !part.summed) builder_.add(part.chunk, term);
    }
    part.summed = true;
  }

  // Passes on the results that the rank has, and gets those that its group's leader has.
  void go_down(std::uint32_t level) {
    part_batches(level);
    const std::int32_t own = own_index(level);
    const std::int32_t members = size(level);
    const Agenda agenda = this->agenda(level);
    for (std::int32_t i = 1; i < members; ++i) {
      const std::int32_t target = wrap(own + i, members);
      for (const std::uint32_t chunk : agenda.led) {
        builder_.send(peer(chunk, level, target), chunk, slots_[chunk]);
      }
      const std::int32_t source = wrap(own - i, members);
      for (const std::uint32_t chunk : agenda.by_leader[static_cast<std::size_t>(source)]) {
        slots_[chunk] = builder_.recv(peer(chunk, level, source), chunk, result_level_);
      }
    }
  }

  // A decode between two levels: the inner one sends what the outer one has received. One that waits for
  // nothing if there is one.
  void part_batches(std::uint32_t level) {
    Part* found = nullptr;
    for (Part& part : parts_) {
      const bool here = part.leads > level && !part.decoded;
      if (here && (found == nullptr || part.leads > found->leads)) found = &part;
    }
    if (found != nullptr && level + 1 < levels_) decode(*found);
  }

  void decode(Part& part) {
    builder_.decode(part.chunk, slots_[part.chunk]);
    part.decoded = true;
  }

  const Topology& topology_;
  const Leaders leaders_;
  const std::uint32_t levels_;
  const std::uint32_t result_level_;
  Builder builder_;
  std::vector<std::int32_t> members_;  // by level: what the rank's group has it in
  std::vector<std::int32_t> groups_;   // by level: the rank's group
  std::vector<Part> parts_;            // by chunk
  std::vector<std::uint32_t> keys_;    // by chunk and level
  std::vector<std::uint32_t> slots_;   // by chunk: the bytes that go up, then those of the result
};

Schedule build(std::int32_t rank, const Topology& topology) {
  return topology.world() == 1 ? single_rank_schedule() : Walk(rank, topology).build();
}

// One for each level at which a rank's group has others, and the result's. There is always a chunk that
// others lead at all of them.
std::uint32_t encodes(const Topology& topology) {
  if (topology.world() == 1) return 0;
  std::uint32_t most = 0;
  for (std::int32_t rank = 0; rank < topology.world(); ++rank) {
    std::uint32_t count = 0;
    std::int32_t member = rank;
    for (std::uint32_t level = 0; level < topology.levels(); ++level) {
      member = topology.group_of(level, member);
      count += topology.size(level, member) > 1 ? 1 : 0;
    }
    most = std::max(most, count);
  }
  return most + 1;
}

std::uint32_t encodes_at(const Topology& topology, std::uint32_t level) {
  if (level >= topology.levels() || !topology.is_used(level)) return 0;
  return level == topology.result_level() ? 2 : 1;
}

// For each chunk and group, the leader sends to the other members' leaders, and they to it.
std::uint32_t chunks_sent(const Topology& topology) {
  if (topology.world() == 1) return 0;
  const Leaders leaders(topology);
  std::vector<std::uint32_t> sent(static_cast<std::size_t>(topology.world()));
  const auto count = [&](const auto& self, std::uint32_t level, std::int32_t group,
                         std::uint32_t key) -> void {
    const std::int32_t leader = leaders.leader(level, group, key);
    for (std::int32_t i = 0; i < topology.size(level, group); ++i) {
      const std::int32_t member = topology.member(level, group, i);
      const std::int32_t rank = leaders.rank_of_member(level, group, member, key);
      if (rank != leader) {
        ++sent[static_cast<std::size_t>(rank)];
        ++sent[static_cast<std::size_t>(leader)];
      }
      if (level > 0) self(self, level - 1, member, leaders.key_inside(level, group, key));
    }
  };
  for (std::uint32_t chunk = 0; chunk < leaders.chunks(); ++chunk) {
    count(count, topology.levels() - 1, 0, chunk);
  }
  return *std::max_element(sent.begin(), sent.end());
}

}  // namespace

AlgorithmDesc hierarchical_algorithm() {
  return {.name = "hierarchical",
          .build = build,
          .encodes = encodes,
          .chunks_sent = chunks_sent,
          .rank_order = false,
          .encodes_at = encodes_at};
}

}  // namespace ferrule::collectives
