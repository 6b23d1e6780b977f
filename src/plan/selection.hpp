// Which algorithm, when the caller does not say. The choice is a table, the same on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collectives/schedule.hpp"
#include "ferrule/status.hpp"
#include "ferrule/types.hpp"

namespace ferrule::plan {

struct Situation {
  std::int32_t world = 1;
  std::size_t encoded_bytes = 0;  ///< of the whole tensor
  DType dtype = DType::f32;
  bool exact = true;  ///< the codec loses nothing
};

/// The first row of the table that fits. An error only if a row names an algorithm that this build lacks.
Result<const collectives::AlgorithmDesc*> choose_algorithm(const Situation& situation);

/// The most encodes one after another that any choice for this world, dtype and codec has, whatever the size.
std::uint32_t most_encodes(std::int32_t world, DType dtype, bool exact);

}  // namespace ferrule::plan
