#include <utility>

#include "bench/sim/wiring.hpp"

namespace ferrule::sim {

Result<Network> full_network(const Place& place, const ProgramOf& program_of) {
  Network network;
  std::vector<ReceiveIndex> receives;
  for (std::int32_t rank = 0; rank < place.world; ++rank) {
    auto program = program_of(rank);
    FERRULE_RETURN_IF_ERROR(program.status());
    receives.emplace_back(*program);
    Walker& walker = network.walkers.emplace_back();
    walker.rank = rank;
    walker.start_ns = start_of(place, rank);
    walker.program = std::move(program).value();
  }
  Fabric fabric(place, network);
  for (Walker& walker : network.walkers) {
    for (const Message& message : walker.program.sends) {
      if (message.peer < 0 || message.peer >= place.world) return unreceived(walker, message);
      Wire wire = fabric.wire(walker.rank, message.peer, message.peer);
      wire.walker = static_cast<std::uint32_t>(message.peer);
      wire.receive = receives[wire.walker].find(walker.rank, message.ordinal);
      if (wire.receive == kNoMessage) return unreceived(walker, message);
      walker.wires.push_back(wire);
    }
  }
  return network;
}

}  // namespace ferrule::sim
