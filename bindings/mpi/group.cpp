#include "bindings/mpi/group.hpp"

#include <cstdio>
#include <map>
#include <mutex>
#include <vector>

#include "bindings/mpi/failure.hpp"
#include "bindings/mpi/meeting.hpp"
#include "bindings/mpi/options.hpp"
#include "bindings/mpi/tally.hpp"

namespace ferrule::mpi {
namespace {

using Handle = std::shared_ptr<Group>;

std::mutex guard;  // of `all`
int group_key = MPI_KEYVAL_INVALID;
std::map<MPI_Comm, Handle> all;

int on_free(MPI_Comm comm, int, void*, void*) {
  Handle last;
  const std::scoped_lock lock(guard);
  if (const auto found = all.find(comm); found != all.end()) {
    last = std::move(found->second);
    all.erase(found);
  }
  return MPI_SUCCESS;
}

void print_summary() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  const SummaryTo to = options().summary;
  if (to == SummaryTo::nobody || (to == SummaryTo::rank_zero && rank != 0)) return;
  std::fprintf(stderr, "ferrule_mpi: %s\n", tally().line(rank, options().codec).c_str());
}

// MPI deletes the attributes of MPI_COMM_SELF first of all in MPI_Finalize, whatever language called it.
int on_finalize(MPI_Comm, int, void*, void*) {
  std::map<MPI_Comm, Handle> left;
  {
    const std::scoped_lock lock(guard);
    left.swap(all);
  }
  for (auto& [comm, group] : left) PMPI_Comm_delete_attr(comm, group_key);
  left.clear();
  print_summary();
  return MPI_SUCCESS;
}

void make_keys() {
  int finalize_key = MPI_KEYVAL_INVALID;
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_free, &group_key, nullptr);
  PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, on_finalize, &finalize_key, nullptr);
  PMPI_Comm_set_attr(MPI_COMM_SELF, finalize_key, nullptr);
}

// Every rank hears what rank 0 was asked for and says whether it was asked for the same.
void agree(MPI_Comm comm, int rank) {
  const std::string mine = options().agreement();
  std::vector<char> theirs(4096, '\0');
  if (rank == 0) mine.copy(theirs.data(), theirs.size() - 1);
  PMPI_Bcast(theirs.data(), static_cast<int>(theirs.size()), MPI_CHAR, 0, comm);
  const int differs = mine.compare(0, theirs.size() - 1, theirs.data()) != 0 ? 1 : 0;
  int any = 0;
  PMPI_Allreduce(&differs, &any, 1, MPI_INT, MPI_MAX, comm);
  if (any == 0) return;
  if (differs != 0) {
    std::fprintf(stderr, "ferrule_mpi: rank %d has %s, but rank 0 has %s: give all ranks the same settings\n",
                 rank, mine.c_str(), theirs.data());
  }
  PMPI_Barrier(comm);  // so that every text is out
  PMPI_Abort(comm, 2);
}

// MPICH 4.0 ends the program in MPI_Waitall where a generalised request of a thread's is among those waited
// for
// ("kind != MPIR_REQUEST_KIND__GREQUEST"), so under it such calls stay MPI's.
#ifdef MPICH_VERSION
constexpr bool kHasSoundRequests = false;
#else
constexpr bool kHasSoundRequests = true;
#endif

bool all_may_complete_requests(MPI_Comm comm) {
  int level = MPI_THREAD_SINGLE;
  PMPI_Query_thread(&level);
  int least = level;
  PMPI_Allreduce(&level, &least, 1, MPI_INT, MPI_MIN, comm);
  return kHasSoundRequests && least == MPI_THREAD_MULTIPLE;
}

}  // namespace

void watch_finalize() {
  static std::once_flag once;
  std::call_once(once, make_keys);
}

Group::~Group() {
  if (comm != nullptr) ferruleCommDestroy(comm);
}

std::shared_ptr<Group> find_group(MPI_Comm comm) {
  const std::scoped_lock lock(guard);
  const auto found = all.find(comm);
  return found == all.end() ? nullptr : found->second;
}

std::shared_ptr<Group> make_group(MPI_Comm comm) {
  if (auto found = find_group(comm)) return found;
  auto group = std::make_shared<Group>();
  PMPI_Comm_rank(comm, &group->rank);
  PMPI_Comm_size(comm, &group->size);
  agree(comm, group->rank);
  if (options().asked && group->size > 1) {
    group->may_complete_requests = all_may_complete_requests(comm);
    group->comm = meet(comm);
  }
  watch_finalize();
  PMPI_Comm_set_attr(comm, group_key, nullptr);
  const std::scoped_lock lock(guard);
  return all[comm] = std::move(group);
}

}  // namespace ferrule::mpi
