#include "bindings/mpi/meeting.hpp"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include "bindings/mpi/address.hpp"

namespace ferrule::mpi {
namespace {

constexpr int kAttempts = 5;  // the free port may be taken by another before it is ours

/// Of rank 0, for all.
struct Invitation {
  std::array<char, 300> place{};
  std::array<char, 80> secret{};  ///< empty: the job has one of its own
};

bool is_one_host(MPI_Comm comm) {
  MPI_Comm host = MPI_COMM_NULL;
  int size = 0;
  int here = 0;
  PMPI_Comm_size(comm, &size);
  PMPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &host);
  PMPI_Comm_size(host, &here);
  PMPI_Comm_free(&host);
  const int all = here == size ? 1 : 0;
  int least = 0;
  PMPI_Allreduce(&all, &least, 1, MPI_INT, MPI_MIN, comm);
  return least == 1;
}

bool has_secret() {
  return std::getenv("FERRULE_JOB_SECRET") != nullptr || std::getenv("FERRULE_JOB_SECRET_FILE") != nullptr;
}

std::string random_secret() {
  constexpr char kDigits[] = "0123456789abcdef";
  std::random_device device;
  std::string text;
  for (int i = 0; i < 64; ++i) text += kDigits[device() & 15u];
  return text;
}

Invitation invite(bool one_host) {
  Invitation invitation;
  const std::string place = listening_place(one_host);
  place.copy(invitation.place.data(), invitation.place.size() - 1);
  if (!has_secret()) random_secret().copy(invitation.secret.data(), invitation.secret.size() - 1);
  return invitation;
}

// The library reads it from the environment, as it does for every job.
void take_secret(const Invitation& invitation) {
  if (invitation.secret[0] != '\0') ::setenv("FERRULE_JOB_SECRET", invitation.secret.data(), 0);
}

ferruleComm_t try_to_meet(MPI_Comm comm, int rank, int size, bool one_host) {
  Invitation invitation;
  if (rank == 0) invitation = invite(one_host);
  PMPI_Bcast(&invitation, sizeof invitation, MPI_CHAR, 0, comm);
  take_secret(invitation);
  ferruleComm_t made = nullptr;
  const ferruleResult_t result = ferruleCommInitRank(&made, size, invitation.place.data(), rank, nullptr);
  const int good = result == ferruleSuccess ? 1 : 0;
  int all_good = 0;
  PMPI_Allreduce(&good, &all_good, 1, MPI_INT, MPI_MIN, comm);
  if (all_good == 1) return made;
  if (good == 0) {
    std::fprintf(stderr, "ferrule_mpi: rank %d cannot join the others: %s\n", rank, ferruleGetLastError());
  }
  if (made != nullptr) ferruleCommDestroy(made);
  return nullptr;
}

}  // namespace

ferruleComm_t meet(MPI_Comm comm) {
  int rank = 0;
  int size = 0;
  PMPI_Comm_rank(comm, &rank);
  PMPI_Comm_size(comm, &size);
  const bool one_host = is_one_host(comm);
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    if (ferruleComm_t made = try_to_meet(comm, rank, size, one_host)) return made;
  }
  std::fprintf(stderr, "ferrule_mpi: rank %d gives up after %d attempts\n", rank, kAttempts);
  PMPI_Abort(comm, 2);
  return nullptr;
}

}  // namespace ferrule::mpi
