// Open MPI as a contestant: MPI_Allreduce, started by mpirun.

#include <fmt/format.h>
#include <mpi.h>

#include <climits>

#include "bench/compare/workers/worker.hpp"

namespace ferrule::compare {
namespace {

Status to_status(int code, const char* call) {
  if (code == MPI_SUCCESS) return {};
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, text, &length);
  return Status(ErrorCode::system, fmt::format("{}: {}", call, text));
}

class OmpiContestant : public Contestant {
 public:
  Status barrier() override { return to_status(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier"); }
  Status all_reduce(const float* send, float* recv, std::size_t count) override {
    if (count > INT_MAX)
      return Status(ErrorCode::unsupported, "MPI_Allreduce takes at most INT_MAX elements");
    const void* from = send == recv ? MPI_IN_PLACE : send;
    return to_status(MPI_Allreduce(from, recv, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD),
                     "MPI_Allreduce");
  }
};

int run(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  WorkerId id;
  MPI_Comm_rank(MPI_COMM_WORLD, &id.rank);
  MPI_Comm_size(MPI_COMM_WORLD, &id.ranks);
  id.socket = argument(argc, argv, "--socket");
  id.about = fmt::format("Open MPI {}.{}.{}", OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION, OMPI_RELEASE_VERSION);
  OmpiContestant contestant;
  const int code = serve(id, contestant);
  MPI_Finalize();
  return code;
}

}  // namespace
}  // namespace ferrule::compare

int main(int argc, char** argv) { return ferrule::compare::run(argc, argv); }
