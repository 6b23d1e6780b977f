// FERRULE_CHECK=nonfinite: finds the first NaN or Inf of a tensor, at the speed of memory.
#pragma once

#include <cstddef>
#include <optional>

#include "ferrule/types.hpp"

namespace ferrule::communicator {

struct NonFinite {
  std::size_t index;
  const char* what;  ///< "NaN", "+Inf" or "-Inf"
};

/// The first one; none in integers. One pass over the tensor.
std::optional<NonFinite> find_nonfinite(const void* data, std::size_t count, DType dtype);

}  // namespace ferrule::communicator
