/* Every kind of all-reduce that a program may make, each checked by itself.
 *
 *   calls TOLERANCE   largest error of a large float sum, relative to its largest magnitude; 0: exact
 *
 * Exit status 1 and a line on stdout for each check that fails; rank 0 ends with "calls: ok". */
#include <math.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kLarge = 200000, kSmall = 100 };

static int rank, size, failures;
static double tolerance;

static void check(int good, const char* what) {
  if (good) return;
  printf("rank %d: %s failed\n", rank, what);
  ++failures;
}

/* Small whole numbers: any order of additions gives the same sum. */
static float input(int r, int i) { return (float)((r * 31 + i * 7) % 23 - 11); }

static float sum_of(int ranks, int i) {
  float sum = 0;
  for (int r = 0; r < ranks; ++r) sum += input(r, i);
  return sum;
}

static float* filled(int count) {
  float* x = malloc(sizeof(float) * (size_t)count);
  for (int i = 0; i < count; ++i) x[i] = input(rank, i);
  return x;
}

/* Near the sum, and the same bits as rank 0's. */
static void check_sum(const float* x, int count, int ranks, double error, MPI_Comm comm, const char* what) {
  const double bound = error * 11 * ranks;
  int near = 1;
  for (int i = 0; i < count; ++i) near &= fabs(x[i] - sum_of(ranks, i)) <= bound;
  check(near, what);
  float* first = malloc(sizeof(float) * (size_t)count);
  memcpy(first, x, sizeof(float) * (size_t)count);
  MPI_Bcast(first, count, MPI_FLOAT, 0, comm);
  check(memcmp(first, x, sizeof(float) * (size_t)count) == 0, "identity");
  free(first);
}

static void float_sums(void) {
  float* x = filled(kLarge);
  float* y = malloc(sizeof(float) * kLarge);
  MPI_Allreduce(x, y, kLarge, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  check_sum(y, kLarge, size, tolerance, MPI_COMM_WORLD, "large sum");
  MPI_Allreduce(x, y, kSmall, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  check_sum(y, kSmall, size, 0, MPI_COMM_WORLD, "small sum");
  MPI_Allreduce(MPI_IN_PLACE, x, kLarge, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  check_sum(x, kLarge, size, tolerance, MPI_COMM_WORLD, "large sum in place");
  if (tolerance > 0) { /* MPI may refuse it, Ferrule takes it as in place */
    float* z = filled(kLarge);
    MPI_Allreduce(z, z, kLarge, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    check_sum(z, kLarge, size, tolerance, MPI_COMM_WORLD, "large sum of one pointer");
    free(z);
  }
  check(MPI_Allreduce(x, y, 0, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD) == MPI_SUCCESS, "no elements");
  free(x);
  free(y);
}

static void other_types_and_operations(void) {
  int* i32 = malloc(sizeof(int) * kLarge);
  double* f64 = malloc(sizeof(double) * kLarge);
  float* f32 = filled(kLarge);
  for (int i = 0; i < kLarge; ++i) {
    i32[i] = rank * 1000003 + i;
    f64[i] = input(rank, i) + 1e-9 * i;
  }
  MPI_Allreduce(MPI_IN_PLACE, i32, kLarge, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, f64, kLarge, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Allreduce(MPI_IN_PLACE, f32, kLarge, MPI_FLOAT, MPI_MAX, MPI_COMM_WORLD);
  int same = 1;
  int near = 1;
  int largest = 1;
  for (int i = 0; i < kLarge; ++i) {
    same &= i32[i] == size * (size - 1) / 2 * 1000003 + size * i;
    near &= fabs(f64[i] - sum_of(size, i) - 1e-9 * i * size) < 1e-10;
    float most = input(0, i);
    for (int r = 1; r < size; ++r) most = fmaxf(most, input(r, i));
    largest &= f32[i] == most;
  }
  check(same, "int sum");
  check(near, "double sum");
  check(largest, "float maximum");
  free(i32);
  free(f64);
  free(f32);
}

static void add_twice(void* in, void* inout, int* count, MPI_Datatype* type) {
  (void)type;
  for (int i = 0; i < *count; ++i) ((float*)inout)[i] += ((float*)in)[i];
}

static void user_operation_and_derived_type(void) {
  MPI_Op op;
  MPI_Op_create(add_twice, 1, &op);
  float* x = filled(kLarge);
  MPI_Allreduce(MPI_IN_PLACE, x, kLarge, MPI_FLOAT, op, MPI_COMM_WORLD);
  check_sum(x, kLarge, size, 0, MPI_COMM_WORLD, "user operation");
  MPI_Op_free(&op);
  free(x);
}

static void sub_communicators(void) {
  for (int round = 0; round < 3; ++round) {
    MPI_Comm half;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half);
    int mine, ranks;
    MPI_Comm_rank(half, &mine);
    MPI_Comm_size(half, &ranks);
    const int keep = rank;
    rank = mine; /* so that the sums are those of a world of the half's size */
    float* x = filled(kLarge);
    MPI_Allreduce(MPI_IN_PLACE, x, kLarge, MPI_FLOAT, MPI_SUM, half);
    check_sum(x, kLarge, ranks, tolerance, half, "sum of a sub-communicator");
    rank = keep;
    free(x);
    MPI_Comm_free(&half);
  }
  MPI_Comm twin;
  MPI_Comm_dup(MPI_COMM_WORLD, &twin);
  float* x = filled(kLarge);
  MPI_Allreduce(MPI_IN_PLACE, x, kLarge, MPI_FLOAT, MPI_SUM, twin);
  check_sum(x, kLarge, size, tolerance, twin, "sum of a duplicate");
  free(x);
  MPI_Comm_free(&twin);
}

static void under_way(void) {
  enum { kRequests = 3 };
  float* x[kRequests];
  MPI_Request requests[kRequests];
  for (int k = 0; k < kRequests; ++k) {
    x[k] = filled(kLarge);
    MPI_Iallreduce(MPI_IN_PLACE, x[k], kLarge, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &requests[k]);
  }
  int done = 0;
  while (!done) MPI_Test(&requests[1], &done, MPI_STATUS_IGNORE);
  MPI_Status statuses[kRequests];
  MPI_Waitall(kRequests, requests, statuses);
  for (int k = 0; k < kRequests; ++k) {
    check_sum(x[k], kLarge, size, tolerance, MPI_COMM_WORLD, "sum under way");
    free(x[k]);
  }
}

static void between_groups(void) {
  if (size < 2) return;
  MPI_Comm half, inter;
  const int color = rank % 2;
  MPI_Comm_split(MPI_COMM_WORLD, color, rank, &half);
  MPI_Intercomm_create(half, 0, MPI_COMM_WORLD, 1 - color, 5, &inter);
  float* x = filled(kLarge);
  float* y = malloc(sizeof(float) * kLarge);
  MPI_Allreduce(x, y, kLarge, MPI_FLOAT, MPI_SUM, inter);
  int good = 1;
  for (int i = 0; i < kLarge; ++i) {
    float sum = 0;
    for (int r = 1 - color; r < size; r += 2) sum += input(r, i);
    good &= y[i] == sum;
  }
  check(good, "intercommunicator");
  free(x);
  free(y);
  MPI_Comm_free(&inter);
  MPI_Comm_free(&half);
}

int main(int argc, char** argv) {
  int level;
  MPI_Init_thread(&argc, &argv, getenv("CALLS_SINGLE") ? MPI_THREAD_SINGLE : MPI_THREAD_MULTIPLE, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  tolerance = argc > 1 ? atof(argv[1]) : 0;
  float_sums();
  other_types_and_operations();
  user_operation_and_derived_type();
  sub_communicators();
  under_way();
  between_groups();
  MPI_Allreduce(MPI_IN_PLACE, &failures, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0 && failures == 0) printf("calls: ok\n");
  MPI_Finalize();
  return failures == 0 ? 0 : 1;
}
