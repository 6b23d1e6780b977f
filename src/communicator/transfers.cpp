// Sends and receives of a communicator: how they are queued, and who drives them.
//
// Whoever owns the transport moves them along: while it drives a collective, or by themselves. When one has
// ended it lets go, so that the thread that waits for it can go on, perhaps to what a peer's part in the
// collective depends on.
#include <fmt/format.h>

#include <utility>

#include "base/log.hpp"
#include "communicator/communicator.hpp"

namespace ferrule::communicator {
namespace {

Status invalid(std::string text) { return Status(ErrorCode::invalid_argument, std::move(text)); }

Status check_transfer(const TransferCall& call, std::int32_t rank, std::int32_t world) {
  const std::string_view what = call.sends ? "send" : "recv";
  if (!is_valid(call.dtype)) return invalid(fmt::format("{} is no dtype", static_cast<int>(call.dtype)));
  const bool any = !call.sends && call.peer == kAnyRank;
  if (!any && (call.peer < 0 || call.peer >= world)) {
    return invalid(fmt::format("{}: rank {} is not in a world of {}", what, call.peer, world));
  }
  if (call.peer == rank) {
    return invalid(fmt::format("{}: rank {} is this rank itself, which needs no message", what, rank));
  }
  if (call.count > PTRDIFF_MAX / element_bytes(call.dtype)) {
    return invalid(
        fmt::format("count {} of {} is more than memory can hold", call.count, dtype_name(call.dtype)));
  }
  if (call.count != 0 && call.data == nullptr) {
    return invalid(fmt::format("{}: the buffer is null but count is {}", what, call.count));
  }
  return {};
}

}  // namespace

Result<std::shared_ptr<Work>> Communicator::start(const TransferCall& call, bool background) {
  FERRULE_RETURN_IF_ERROR(check_transfer(call, rank(), size()));
  auto work = std::make_shared<Work>();
  work->transfer = std::make_unique<Transfer>(
      Transfer{call.sends, call.peer, call.tag, call.data, call.count * element_bytes(call.dtype), -1});
  work->timeout = call.timeout.count() != 0 ? call.timeout : defaults_.timeout;
  work->background = background;
  const std::lock_guard lock(mutex_);
  if (!broken_.ok()) return broken_;
  if (background && !progress_thread_.joinable()) {
    progress_thread_ = std::thread([this] { run_progress_thread(); });
  }
  new_transfers_.push_back(work);
  transfers_.fetch_add(1);
  has_new_transfers_.store(true);
  if (background) progress_.notify_one();
  call_owner();
  return work;
}

// Whoever sleeps in the transport looks up. Under mutex_.
void Communicator::call_owner() {
  if (!owned_) return;
  interrupt_.store(true);
  transport_->wake();
}

bool Communicator::move_transfers() {
  if (has_new_transfers_.exchange(false)) {
    std::unique_lock lock(mutex_);
    auto fresh = std::exchange(new_transfers_, {});
    lock.unlock();
    for (auto& work : fresh) point_to_point_.begin(std::move(work));
  }
  const auto ended = point_to_point_.step();
  if (ended.empty()) return false;
  transfers_.fetch_sub(static_cast<std::uint32_t>(ended.size()));
  // A waiter that has just looked and found nothing must not miss it.
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
  return true;
}

void Communicator::fail_transfers(const Status& why) {
  move_transfers();
  point_to_point_.fail_all(why);
  move_transfers();
}

void Communicator::drive_transfers(Deadline until) {
  while (true) {
    interrupt_.store(false);
    if (abort_requested_.load()) {
      return fail_transfers(
          Status(ErrorCode::aborted, fmt::format("the communicator of {} was aborted: make a new one",
                                                 membership_.describe(membership_.rank))));
    }
    if (move_transfers() || until.passed()) return;
    const Status moved = transport_->progress(earlier(until, point_to_point_.next()));
    if (!moved.ok()) {
      fail_transfers(moved);
      const std::lock_guard lock(mutex_);
      if (broken_.ok()) broken_ = moved;
      return;
    }
    control_.reap();
    if (interrupt_.load()) {
      move_transfers();
      return;
    }
  }
}

}  // namespace ferrule::communicator
