// Dissemination: a barrier moves no data, and before an operation without data ranks agree on it along a
// dissemination pattern (communicator/agreement.hpp): log2(N) small messages a rank, after which all have
// begun it. So there is nothing left to do.
#include "collectives/builder.hpp"
#include "collectives/schedule.hpp"

namespace ferrule::collectives {
namespace {

Schedule build(std::int32_t rank, const Topology& topology) {
  return Builder(rank, topology.world(), 1).take();
}

std::uint32_t none(const Topology&) { return 0; }

}  // namespace

AlgorithmDesc barrier_dissemination_algorithm() {
  return {.name = "dissemination",
          .build = build,
          .encodes = none,
          .chunks_sent = none,
          .rank_order = false,
          .collective = Collective::barrier};
}

}  // namespace ferrule::collectives
