// Which rank of how many this process is, and where they meet, from the launcher's variables.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/environment.hpp"
#include "ferrule/status.hpp"
#include "rendezvous/place.hpp"

namespace ferrule::rendezvous {

struct World {
  std::int32_t rank = 0;
  std::int32_t size = 1;
  std::int32_t local_rank = -1;  ///< -1: the launcher does not say
  std::int32_t local_size = -1;
  std::string launcher;   ///< "torchrun", "Open MPI", "MPICH", "Slurm", "RANK and WORLD_SIZE"; empty: none
  std::string variables;  ///< what rank and size were taken from, e.g. "OMPI_COMM_WORLD_*"
  std::optional<Place> place;  ///< none for a world of 1 without FERRULE_RENDEZVOUS

  /// "2 ranks (from OMPI_COMM_WORLD_*)", "1 rank (no launcher found)".
  std::string describe() const;
  /// Known to be all on one host.
  bool is_single_host() const { return local_size == size; }
};

/// What a job's name is made of where the launcher gives none.
struct ProcessFacts {
  std::uint32_t user = 0;
  std::int64_t session = 0;  ///< getsid(0)
};

/// The order of precedence and the rules are in docs/rendezvous.md. Values that contradict each other or make
/// no sense are `invalid_argument`, naming them.
Result<World> world_from(const Environment& environment, const ProcessFacts& facts);
/// Of this process.
Result<World> world_from_environment();

}  // namespace ferrule::rendezvous
