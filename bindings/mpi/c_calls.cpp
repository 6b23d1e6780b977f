// The functions that programs in C and C++, mpi4py, and MPICH's Fortran binding call.
#include <mpi.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "bindings/mpi/all_reduce.hpp"
#include "bindings/mpi/options.hpp"
#include "bindings/mpi/tally.hpp"

using ferrule::mpi::all_reduce;
using ferrule::mpi::start_all_reduce;

#define FERRULE_MPI_API extern "C" __attribute__((visibility("default")))

FERRULE_MPI_API int MPI_Allreduce(const void* send, void* recv, int count, MPI_Datatype dtype, MPI_Op op,
                                  MPI_Comm comm) {
  if (const auto done = all_reduce({send, recv, count, dtype, op, comm})) return *done;
  return PMPI_Allreduce(send, recv, count, dtype, op, comm);
}

FERRULE_MPI_API int MPI_Iallreduce(const void* send, void* recv, int count, MPI_Datatype dtype, MPI_Op op,
                                   MPI_Comm comm, MPI_Request* request) {
  if (const auto started = start_all_reduce({send, recv, count, dtype, op, comm}, request)) return *started;
  return PMPI_Iallreduce(send, recv, count, dtype, op, comm, request);
}

#if MPI_VERSION >= 4
FERRULE_MPI_API int MPI_Allreduce_c(const void* send, void* recv, MPI_Count count, MPI_Datatype dtype,
                                    MPI_Op op, MPI_Comm comm) {
  if (const auto done = all_reduce({send, recv, count, dtype, op, comm})) return *done;
  return PMPI_Allreduce_c(send, recv, count, dtype, op, comm);
}

FERRULE_MPI_API int MPI_Iallreduce_c(const void* send, void* recv, MPI_Count count, MPI_Datatype dtype,
                                     MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  if (const auto started = start_all_reduce({send, recv, count, dtype, op, comm}, request)) return *started;
  return PMPI_Iallreduce_c(send, recv, count, dtype, op, comm, request);
}
#endif

namespace {

// A program that never came here was preloaded in vain, which nobody would notice otherwise.
struct AtExit {
  ~AtExit() {
    // ferrule-run sets it to its process id, which exec keeps: children of the program say nothing.
    const char* launched = std::getenv("_FERRULE_RUN_PID");
    if (launched == nullptr || std::atol(launched) != ::getpid() || ferrule::mpi::tally().saw_calls()) return;
    std::fprintf(
        stderr,
        "ferrule_mpi: loaded, but this process has made no all-reduce that it could see (is the program "
        "built for this MPI, and linked dynamically?)\n");
  }
};
const AtExit at_exit;

}  // namespace
