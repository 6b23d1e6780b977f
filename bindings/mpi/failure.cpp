#include "bindings/mpi/failure.hpp"

#include <cstdio>
#include <mutex>

#include "ferrule/ferrule.h"

namespace ferrule::mpi {
namespace {

// One class for all: what it was is in the text.
int error_code() {
  static std::once_flag once;
  static int code = MPI_ERR_OTHER;
  std::call_once(once, [] {
    int error_class = 0;
    if (PMPI_Add_error_class(&error_class) != MPI_SUCCESS) return;
    if (PMPI_Add_error_code(error_class, &code) != MPI_SUCCESS) return;
    PMPI_Add_error_string(code, "a collective of Ferrule failed: see the text on stderr");
  });
  return code;
}

}  // namespace

int say_failure(const char* call) {
  std::fprintf(stderr, "ferrule_mpi: %s: %s\n", call, ferruleGetLastError());
  return error_code();
}

int report_failure(MPI_Comm comm, const char* call) {
  const int code = say_failure(call);
  PMPI_Comm_call_errhandler(comm, code);
  return code;
}

}  // namespace ferrule::mpi
