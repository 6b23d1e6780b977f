// Refinement of classes, as in partition refinement of automata (or 1-dimensional Weisfeiler-Leman): ranks
// that look alike form a class; a class is split while its members' peers differ in class. What is left
// behaves alike, because a rank's times are a function of its program and of the arrival of its messages.
#include <bit>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "bench/sim/network.hpp"

namespace ferrule::sim {
namespace {

using Colour = std::uint64_t;

constexpr int kMostRounds = 64;

Colour mix(Colour seed, std::uint64_t value) {
  std::uint64_t x = (seed ^ value) + 0x9e3779b97f4a7c15U + (seed << 6);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

Colour mix(Colour seed, double value) { return mix(seed, std::bit_cast<std::uint64_t>(value)); }

/// Everything that times depend on but for who the peers are.
Colour first_colour(const Network& network, const Walker& walker, const Cut& cut) {
  Colour colour = mix(0, walker.start_ns);
  for (const Action& action : walker.program.actions) {
    colour = mix(colour, action.ns_per_byte);
    colour = mix(colour, std::uint64_t{cut.elements(action.chunk)});
    colour = mix(mix(colour, std::uint64_t{action.need_count}), std::uint64_t{action.send});
    colour = mix(colour, std::uint64_t{action.level});
  }
  for (const std::uint32_t need : walker.program.needs) colour = mix(colour, std::uint64_t{need});
  for (const Wire& wire : walker.wires) {
    colour = mix(colour, std::uint64_t{wire.path});
    colour = mix(colour, network.ports[wire.out_port].ns_per_byte);
    colour = mix(colour, network.ports[wire.in_port].ns_per_byte);
  }
  return colour;
}

struct Source {
  std::uint32_t walker = 0;
  std::uint32_t send = 0;
};

/// Who sends each receive, by walker.
std::vector<std::vector<Source>> sources_of(const Network& network) {
  std::vector<std::vector<Source>> sources(network.walkers.size());
  for (std::size_t i = 0; i < sources.size(); ++i)
    sources[i].resize(network.walkers[i].program.receives.size());
  for (std::uint32_t i = 0; i < network.walkers.size(); ++i) {
    const std::vector<Wire>& wires = network.walkers[i].wires;
    for (std::uint32_t k = 0; k < wires.size(); ++k) sources[wires[k].walker][wires[k].receive] = {i, k};
  }
  return sources;
}

/// Classes by number, in order of their first members.
struct Partition {
  std::vector<std::uint32_t> class_of;
  std::vector<std::uint32_t> first;  // member of each class
};

Partition partition(const std::vector<Colour>& colours) {
  Partition result;
  std::unordered_map<Colour, std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < colours.size(); ++i) {
    const auto next = static_cast<std::uint32_t>(result.first.size());
    const auto [place, is_new] = numbers.emplace(colours[i], next);
    if (is_new) result.first.push_back(i);
    result.class_of.push_back(place->second);
  }
  return result;
}

std::vector<Colour> refine(const Network& network, const std::vector<std::vector<Source>>& sources,
                           const std::vector<Colour>& colours) {
  std::vector<Colour> refined(colours.size());
  for (std::size_t i = 0; i < colours.size(); ++i) {
    Colour colour = mix(1, colours[i]);
    for (const Wire& wire : network.walkers[i].wires) {
      colour = mix(mix(colour, colours[wire.walker]), std::uint64_t{wire.receive});
    }
    for (const Source& source : sources[i]) {
      colour = mix(mix(colour, colours[source.walker]), std::uint64_t{source.send});
    }
    refined[i] = colour;
  }
  return refined;
}

Network representatives(Network full, const Partition& parts) {
  std::vector<double> members(parts.first.size(), 0);
  for (const std::uint32_t number : parts.class_of) members[number] += 1;
  Network small;
  small.ports = full.ports;
  small.paths = full.paths;
  small.levels = full.levels;
  small.path_levels = full.path_levels;
  for (std::uint32_t number = 0; number < parts.first.size(); ++number) {
    Walker& walker = small.walkers.emplace_back(std::move(full.walkers[parts.first[number]]));
    walker.ranks = members[number];
  }
  return small;
}

/// Sends end at the representative of their receiver's class, and there at the port of its own.
void rewire(Network& small, const Partition& parts, const std::vector<std::vector<std::uint32_t>>& in_ports) {
  for (Walker& walker : small.walkers) {
    for (Wire& wire : walker.wires) {
      wire.walker = parts.class_of[wire.walker];
      wire.in_port = in_ports[wire.walker][wire.receive];
    }
  }
}

/// The port that each receive of each representative comes in by.
std::vector<std::vector<std::uint32_t>> in_ports_of(const Network& full, const Partition& parts,
                                                    const std::vector<std::vector<Source>>& sources) {
  std::vector<std::vector<std::uint32_t>> ports;
  for (const std::uint32_t first : parts.first) {
    std::vector<std::uint32_t>& own = ports.emplace_back();
    for (const Source& source : sources[first]) {
      own.push_back(full.walkers[source.walker].wires[source.send].in_port);
    }
  }
  return ports;
}

}  // namespace

Network merged(Network full, const Cut& cut) {
  const std::vector<std::vector<Source>> sources = sources_of(full);
  std::vector<Colour> colours;
  for (const Walker& walker : full.walkers) colours.push_back(first_colour(full, walker, cut));
  Partition parts = partition(colours);
  for (int round = 0;; ++round) {
    colours = refine(full, sources, colours);
    Partition finer = partition(colours);
    const bool stable = finer.first.size() == parts.first.size();
    parts = std::move(finer);
    if (2 * parts.first.size() > full.walkers.size() || round == kMostRounds) return full;
    if (stable) break;
  }
  const auto in_ports = in_ports_of(full, parts, sources);
  Network small = representatives(std::move(full), parts);
  rewire(small, parts, in_ports);
  return small;
}

}  // namespace ferrule::sim
