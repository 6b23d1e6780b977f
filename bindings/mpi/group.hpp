// The Ferrule communicator beside an MPI communicator: made at the first call that can use it, kept as an
// attribute, closed when MPI frees the communicator or at MPI_Finalize.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "ferrule/ferrule.h"

namespace ferrule::mpi {

/// Of one MPI communicator.
struct Group {
  ferruleComm_t comm = nullptr;  ///< null: the ranks have agreed that MPI does it all
  int rank = 0;
  int size = 1;
  bool may_complete_requests = false;  ///< every rank has MPI_THREAD_MULTIPLE, and MPI can take it
  std::uint64_t calls = 0;             ///< that Ferrule has done, the same on all ranks

  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group();
};

/// The group of an intracommunicator, or null where there is none yet. No communication.
std::shared_ptr<Group> find_group(MPI_Comm comm);
/// Makes it where there is none: a collective over `comm`, to be called by all its ranks at the same place
/// among its collectives. Ranks that were asked for different things end the program, each naming both.
std::shared_ptr<Group> make_group(MPI_Comm comm);

/// From now on MPI_Finalize closes all groups and prints the summary, whatever language calls it.
void watch_finalize();

}  // namespace ferrule::mpi
