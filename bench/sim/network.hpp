// Who is simulated, and which send ends in which receive. Either every rank, or one representative of each
// class of ranks that behave alike: its sends then end at the representative of the receiver's class.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "bench/sim/cut.hpp"
#include "bench/sim/levels.hpp"
#include "bench/sim/link_model.hpp"
#include "bench/sim/program.hpp"
#include "collectives/topology.hpp"
#include "ferrule/status.hpp"

namespace ferrule::sim {

/// Where a send ends and what it passes.
struct Wire {
  std::uint32_t walker = 0;
  std::uint32_t receive = 0;
  std::uint32_t path = 0;
  std::uint32_t out_port = 0;
  std::uint32_t in_port = 0;
};

struct Walker {
  std::int32_t rank = 0;
  double ranks = 1;  ///< how many ranks it stands for
  double start_ns = 0;
  Program program;
  std::vector<Wire> wires;  ///< of each send
};

struct Network {
  std::vector<Walker> walkers;
  std::vector<Port> ports;
  std::vector<Path> paths;  ///< the levels first, then pipes of slow pairs
  std::uint32_t levels = 1;
  std::vector<std::uint32_t> path_levels;  ///< the level that a path's bytes count for
};

/// Ranks and what joins them.
struct Place {
  std::int32_t world = 1;
  Levels levels;
  Stragglers stragglers;
  collectives::Topology topology{1};  ///< of the levels: place_of() makes it
};

/// Error: levels that do not fit together, or stragglers beyond the world.
Result<Place> place_of(std::int32_t world, const Levels& levels, const Stragglers& stragglers);

/// The timed program of a rank.
using ProgramOf = std::function<Result<Program>(std::int32_t rank)>;

/// Every rank. O(messages of a slice).
Result<Network> full_network(const Place& place, const ProgramOf& program_of);

/// What moving all ranks on changes in a program.
enum class Likeness : std::uint8_t {
  none,   ///< who talks to whom
  near,   ///< the order of some computations, and so which messages each waits for
  exact,  ///< nothing
};

/// The first `period` ranks, each standing for all that are a multiple of `period` away, where moving all
/// ranks on by `period` changes nothing, or nearly nothing. That is checked on a few ranks spread over the
/// world (on all of them in worlds of up to 64). Without likeness the network is of no use. The caller
/// answers for equal chunks and no stragglers. O(messages of `period` ranks).
Result<Network> rotation_network(const Place& place, const ProgramOf& program_of, Likeness& likeness);

/// Classes of ranks that walk the same steps with the same sizes and links, and whose peers, message for
/// message, are of the same class. Ports must not be shared. O(messages * rounds of refinement); gives up and
/// returns the full network where that finds (nearly) no two ranks alike.
Network merged(Network full, const Cut& cut);

}  // namespace ferrule::sim
