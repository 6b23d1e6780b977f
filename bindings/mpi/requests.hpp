// MPI requests for collectives that Ferrule has under way.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>

#include "bindings/mpi/group.hpp"
#include "ferrule/ferrule.h"

namespace ferrule::mpi {

struct Pending {
  ferruleWork_t work = nullptr;
  std::shared_ptr<Group> group;  ///< lives at least until the request is complete
  std::uint64_t tensor_bytes = 0;
  std::uint64_t raw_bytes = 0;
};

/// A generalised request that becomes complete when the work does. Takes the work.
int complete_later(Pending pending, MPI_Request* request);

}  // namespace ferrule::mpi
