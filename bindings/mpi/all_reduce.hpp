// Which all-reduces are Ferrule's, and how it does them.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <optional>

namespace ferrule::mpi {

/// One call, in C's terms.
struct Call {
  const void* send = nullptr;  ///< or MPI_IN_PLACE
  void* recv = nullptr;
  std::int64_t count = 0;
  MPI_Datatype dtype = MPI_DATATYPE_NULL;
  MPI_Op op = MPI_OP_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
};

/// Does the call, or returns nothing: it is MPI's. All ranks decide the same, since MPI demands that count,
/// type and operation are the same on all.
std::optional<int> all_reduce(const Call& call);
/// Starts it and gives a generalised request, or returns nothing. Needs a group that a blocking call has made
/// (making one would wait for other ranks) and MPI_THREAD_MULTIPLE (a thread of ours ends the request).
std::optional<int> start_all_reduce(const Call& call, MPI_Request* request);

}  // namespace ferrule::mpi
