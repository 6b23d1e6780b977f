#include "bindings/mpi/requests.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "bindings/mpi/failure.hpp"
#include "bindings/mpi/tally.hpp"

namespace ferrule::mpi {
namespace {

using Clock = std::chrono::steady_clock;

/// Of one request, from its start to its free function.
struct Extra {
  Pending pending;
  MPI_Request request = MPI_REQUEST_NULL;
  Clock::time_point begin;
  int error = MPI_SUCCESS;
};

int on_query(void* extra, MPI_Status* status) {
  PMPI_Status_set_elements(status, MPI_BYTE, 0);
  PMPI_Status_set_cancelled(status, 0);
  status->MPI_SOURCE = MPI_UNDEFINED;
  status->MPI_TAG = MPI_UNDEFINED;
  return static_cast<Extra*>(extra)->error;
}

int on_free(void* extra) {
  delete static_cast<Extra*>(extra);
  return MPI_SUCCESS;
}

int on_cancel(void*, int) { return MPI_SUCCESS; }  // a collective cannot be cancelled

void finish(Extra& extra) {
  const ferruleResult_t result = ferruleWorkWait(extra.pending.work, -1);
  if (result == ferruleSuccess) {
    std::uint64_t sent = 0;
    ferruleWorkBytesSent(extra.pending.work, &sent);
    tally().done(extra.pending.tensor_bytes, extra.pending.raw_bytes, sent,
                 std::chrono::duration<double>(Clock::now() - extra.begin).count());
  } else {
    extra.error = say_failure("MPI_Iallreduce");
  }
  ferruleWorkDestroy(extra.pending.work);
  extra.pending.group.reset();
  // The last use of `extra`: the program may free the request at once.
  PMPI_Grequest_complete(extra.request);
}

/// Ends requests in the order in which they were started; a program waits for all of them in the end. One of
/// another communicator may be done earlier than it is told to be.
class Finisher {
 public:
  Finisher() : thread_([this] { loop(); }) {}
  ~Finisher() {
    {
      const std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  void add(Extra* extra) {
    {
      const std::scoped_lock lock(mutex_);
      queue_.push_back(extra);
    }
    changed_.notify_one();
  }

 private:
  void loop() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      Extra* next = queue_.front();
      queue_.pop_front();
      lock.unlock();
      finish(*next);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Extra*> queue_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace

int complete_later(Pending pending, MPI_Request* request) {
  static Finisher finisher;
  auto* extra = new Extra{std::move(pending), MPI_REQUEST_NULL, Clock::now(), MPI_SUCCESS};
  const int result = PMPI_Grequest_start(on_query, on_free, on_cancel, extra, &extra->request);
  if (result != MPI_SUCCESS) {
    ferruleWorkWait(extra->pending.work, -1);
    ferruleWorkDestroy(extra->pending.work);
    delete extra;
    return result;
  }
  *request = extra->request;
  finisher.add(extra);
  return MPI_SUCCESS;
}

}  // namespace ferrule::mpi
