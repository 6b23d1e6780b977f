// How the ranks of an MPI communicator find each other outside of MPI.
#pragma once

#include <mpi.h>

#include "ferrule/ferrule.h"

namespace ferrule::mpi {

/// A Ferrule communicator of the same ranks in the same order. Rank 0 says over MPI where it listens and, if
/// the job has no secret, makes one up for it: nobody else can join. A collective over `comm`; ends the
/// program, with the reason, where it cannot be had.
ferruleComm_t meet(MPI_Comm comm);

}  // namespace ferrule::mpi
