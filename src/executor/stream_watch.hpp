// Whoever enqueues on a stream goes on at once, and may never look again. So a thread looks: when a
// collective has not ended by its deadline, or the link has failed, it aborts the link, which ends what is
// enqueued, and keeps the reason.
//
// Replays of a graph are not seen by it, but for failures that the link reports.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "base/deadline.hpp"
#include "executor/stream_device.hpp"
#include "ferrule/status.hpp"
#include "transport/stream_link.hpp"

namespace ferrule::executor {

/// How a collective on a stream stands. Thread safe.
class StreamTicket {
 public:
  /// Whether it has ended, well or not.
  bool done() const;
  /// Once it is done: how it ended.
  Status status() const;
  /// Until it is done or the deadline has passed; whether it is done. For hosts that want to wait.
  bool wait(Deadline deadline) const;

 private:
  friend class StreamWatch;
  void end(Status status);

  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  Status status_;
};

/// One for each link. Destroy it before the link.
class StreamWatch {
 public:
  explicit StreamWatch(transport::StreamLink& link) : link_(link) {}
  StreamWatch(const StreamWatch&) = delete;
  StreamWatch& operator=(const StreamWatch&) = delete;
  /// Tickets that are not done end with `aborted`.
  ~StreamWatch();

  /// What was enqueued before `mark`. `what` names it in errors: "all_reduce #12". Tickets end in the order
  /// in which they were made.
  std::shared_ptr<const StreamTicket> watch(std::shared_ptr<StreamMark> mark, Deadline deadline,
                                            std::string what);
  /// From now on failures of the link are noticed, even while nothing is watched (graphs).
  void guard();
  /// The first failure, or ok. Nothing more can be done with the link after one.
  Status failure() const;
  /// Aborts the link for this reason, if nothing failed before.
  void fail(const Status& why);

 private:
  struct Watched {
    std::shared_ptr<StreamMark> mark;
    Deadline deadline;
    std::string what;
    std::shared_ptr<StreamTicket> ticket;
  };

  void start(std::unique_lock<std::mutex>& lock);
  void work();
  /// How the oldest stands: done well, failed, or neither (then `ended` is false).
  Status look(const Watched& oldest, bool& ended);
  void end_all(std::unique_lock<std::mutex>& lock, const Status& why);

  transport::StreamLink& link_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Watched> queue_;
  bool guards_ = false;
  bool closing_ = false;
  Status failure_;
  std::thread thread_;
};

}  // namespace ferrule::executor
