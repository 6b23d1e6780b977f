// The functions that Open MPI's Fortran bindings call: they reach PMPI_* directly, so that C's names alone
// would miss every Fortran program. (MPICH's bindings call MPI_*: c_calls.cpp sees them.)
//
// mpif.h and `use mpi` call mpi_allreduce_ (or another spelling, by compiler), `use mpi_f08` calls
// ompi_allreduce_f. Arguments are references; handles are integers.
#include <dlfcn.h>
#include <mpi.h>

#include "bindings/mpi/all_reduce.hpp"

namespace {

using ferrule::mpi::Call;

struct Arguments {
  char* send;
  char* recv;
  MPI_Fint* count;
  MPI_Fint* dtype;
  MPI_Fint* op;
  MPI_Fint* comm;
};

template <class Function>
Function next(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

// Fortran's MPI_IN_PLACE is a variable of the binding's; which one depends on the compiler's spelling.
bool is_in_place(const void* send) {
  for (const char* name :
       {"mpi_fortran_in_place_", "mpi_fortran_in_place", "mpi_fortran_in_place__", "MPI_FORTRAN_IN_PLACE"}) {
    if (const void* found = ::dlsym(RTLD_DEFAULT, name); found != nullptr && found == send) return true;
  }
  return false;
}

Call call_of(const Arguments& given) {
  Call call;
  call.send = is_in_place(given.send) ? MPI_IN_PLACE : given.send;
  call.recv = given.recv;
  call.count = *given.count;
  call.dtype = PMPI_Type_f2c(*given.dtype);
  call.op = PMPI_Op_f2c(*given.op);
  call.comm = PMPI_Comm_f2c(*given.comm);
  return call;
}

using AllReduce = void (*)(char*, char*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*);
using StartAllReduce = void (*)(char*, char*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*, MPI_Fint*,
                                MPI_Fint*);

void run(const char* name, const Arguments& given, MPI_Fint* error) {
  if (const auto done = ferrule::mpi::all_reduce(call_of(given))) {
    if (error != nullptr) *error = *done;
    return;
  }
  next<AllReduce>(name)(given.send, given.recv, given.count, given.dtype, given.op, given.comm, error);
}

void start(const char* name, const Arguments& given, MPI_Fint* request, MPI_Fint* error) {
  MPI_Request started = MPI_REQUEST_NULL;
  if (const auto result = ferrule::mpi::start_all_reduce(call_of(given), &started)) {
    *request = PMPI_Request_c2f(started);
    if (error != nullptr) *error = *result;
    return;
  }
  next<StartAllReduce>(name)(given.send, given.recv, given.count, given.dtype, given.op, given.comm, request,
                             error);
}

}  // namespace

#define FERRULE_MPI_API extern "C" __attribute__((visibility("default")))

#define FERRULE_FORTRAN_ALL_REDUCE(NAME)                                                            \
  FERRULE_MPI_API void NAME(char* send, char* recv, MPI_Fint* count, MPI_Fint* dtype, MPI_Fint* op, \
                            MPI_Fint* comm, MPI_Fint* error) {                                      \
    run(#NAME, {send, recv, count, dtype, op, comm}, error);                                        \
  }
#define FERRULE_FORTRAN_START_ALL_REDUCE(NAME)                                                      \
  FERRULE_MPI_API void NAME(char* send, char* recv, MPI_Fint* count, MPI_Fint* dtype, MPI_Fint* op, \
                            MPI_Fint* comm, MPI_Fint* request, MPI_Fint* error) {                   \
    start(#NAME, {send, recv, count, dtype, op, comm}, request, error);                             \
  }

FERRULE_FORTRAN_ALL_REDUCE(mpi_allreduce)
FERRULE_FORTRAN_ALL_REDUCE(mpi_allreduce_)
FERRULE_FORTRAN_ALL_REDUCE(mpi_allreduce__)
FERRULE_FORTRAN_ALL_REDUCE(MPI_ALLREDUCE)
FERRULE_FORTRAN_ALL_REDUCE(ompi_allreduce_f)
FERRULE_FORTRAN_START_ALL_REDUCE(mpi_iallreduce)
FERRULE_FORTRAN_START_ALL_REDUCE(mpi_iallreduce_)
FERRULE_FORTRAN_START_ALL_REDUCE(mpi_iallreduce__)
FERRULE_FORTRAN_START_ALL_REDUCE(MPI_IALLREDUCE)
FERRULE_FORTRAN_START_ALL_REDUCE(ompi_iallreduce_f)
