#include "executor/stream_watch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/log.hpp"

namespace ferrule::executor {
namespace {

/// Between looks at something that runs; a collective's end is not noticed later than this.
constexpr std::chrono::milliseconds kBusyLook{1};
/// Between looks at a link of which nothing is watched.
constexpr std::chrono::milliseconds kIdleLook{50};

}  // namespace

// ---- ticket

bool StreamTicket::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

Status StreamTicket::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

bool StreamTicket::wait(Deadline deadline) const {
  // The clamp keeps "never" from overflowing in the C library.
  const auto until = earlier(deadline, Deadline::after(std::chrono::hours(1))).when();
  std::unique_lock lock(mutex_);
  return changed_.wait_until(lock, until, [&] { return done_; });
}

void StreamTicket::end(Status status) {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    status_ = std::move(status);
  }
  changed_.notify_all();
}

// ---- watch

StreamWatch::~StreamWatch() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::unique_lock lock(mutex_);
  end_all(lock, Status(ErrorCode::aborted, "the communicator was closed before the collective had ended"));
}

std::shared_ptr<const StreamTicket> StreamWatch::watch(std::shared_ptr<StreamMark> mark, Deadline deadline,
                                                       std::string what) {
  auto ticket = std::make_shared<StreamTicket>();
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) {
    ticket->end(failure_);
    return ticket;
  }
  queue_.push_back({std::move(mark), deadline, std::move(what), ticket});
  start(lock);
  return ticket;
}

void StreamWatch::guard() {
  std::unique_lock lock(mutex_);
  guards_ = true;
  start(lock);
}

void StreamWatch::start(std::unique_lock<std::mutex>& lock) {
  if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
  lock.unlock();
  changed_.notify_all();
}

Status StreamWatch::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void StreamWatch::fail(const Status& why) {
  std::unique_lock lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = why;
  // Before the waiters hear of it: they may go on to free what the device still uses.
  lock.unlock();
  log::warn("{}: the communicator is aborted: {}", link_.name(), why.text());
  link_.abort();
  lock.lock();
  end_all(lock, why);
}

void StreamWatch::end_all(std::unique_lock<std::mutex>& lock, const Status& why) {
  std::deque<Watched> ended;
  ended.swap(queue_);
  lock.unlock();
  for (const Watched& each : ended) {
    each.ticket->end(Status(why.code(), fmt::format("{}: {}", each.what, why.text())));
  }
  lock.lock();
}

Status StreamWatch::look(const Watched& oldest, bool& ended) {
  ended = false;
  auto passed = oldest.mark->passed();
  FERRULE_RETURN_IF_ERROR(passed.status());
  FERRULE_RETURN_IF_ERROR(link_.health());
  ended = *passed;
  if (ended || !oldest.deadline.passed()) return {};
  return {ErrorCode::timeout,
          fmt::format(
              "{} has not ended on the device of rank {} of {} by its deadline. A peer has not called it, "
              "has failed, or is busy with something else: the ranks that report no timeout are the ones "
              "to look at (NCCL does not say which). Rebuild the communicator",
              oldest.what, link_.rank(), link_.size())};
}

void StreamWatch::work() {
  std::unique_lock lock(mutex_);
  while (!closing_) {
    if (!failure_.ok() || (queue_.empty() && !guards_)) {
      changed_.wait(lock, [&] { return closing_ || (failure_.ok() && (!queue_.empty() || guards_)); });
      continue;
    }
    const bool idle = queue_.empty();
    Status status;
    bool ended = false;
    if (idle) {
      lock.unlock();
      status = link_.health();
    } else {
      const Watched oldest = queue_.front();
      lock.unlock();
      status = look(oldest, ended);
    }
    if (!status.ok()) fail(status);
    lock.lock();
    if (ended && !queue_.empty()) {
      const Watched done = std::move(queue_.front());
      queue_.pop_front();
      done.ticket->end({});
      continue;
    }
    changed_.wait_for(lock, idle ? kIdleLook : kBusyLook, [&] { return closing_; });
  }
}

}  // namespace ferrule::executor
