/* Rank 1 stays away from the second of two all-reduces, and rank 0 says what it got to know. MPI's error
 * handler would end the job, so another one returns. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { kLarge = 200000 };

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  int rank;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  float* x = calloc(kLarge, sizeof(float));
  MPI_Allreduce(MPI_IN_PLACE, x, kLarge, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 1) pause(); /* until rank 0 ends the job */
  const int error = MPI_Allreduce(MPI_IN_PLACE, x, kLarge, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  char text[MPI_MAX_ERROR_STRING];
  int length;
  MPI_Error_string(error, text, &length);
  fprintf(stderr, "rank %d: error %s: %s\n", rank, error == MPI_SUCCESS ? "none" : "returned", text);
  free(x);
  MPI_Abort(MPI_COMM_WORLD, 7);
  return 0;
}
