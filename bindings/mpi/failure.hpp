// What becomes of a failure: its text on stderr, and an MPI error through the communicator's error handler.
#pragma once

#include <mpi.h>

namespace ferrule::mpi {

/// Says ferruleGetLastError() and returns what the error handler of `comm` leaves (by default it does not
/// return: the job ends).
int report_failure(MPI_Comm comm, const char* call);
/// The same without calling a handler: the code for MPI_ERROR of a request.
int say_failure(const char* call);

}  // namespace ferrule::mpi
