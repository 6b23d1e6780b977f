// How one collective is driven: begin, agree, run, and what becomes of it. Everything here is done by the one
// thread that owns the transport at the time.
#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

#include "base/log.hpp"
#include "communicator/communicator.hpp"

namespace ferrule::communicator {
namespace {

// How long a rank waits for the text that has both values of a disagreement, ...
constexpr std::chrono::seconds kSettle{2};
// ... and to pass on the news of a failure.
constexpr std::chrono::milliseconds kFarewell{200};

}  // namespace

bool Communicator::drive(Work& work, Deadline until) {
  bool done = false;
  Status status;
  try {
    status = drive_to_end(work, until, done);
  } catch (const std::exception& error) {  // no memory: the collective fails, its waiters must still be told
    status = Status(ErrorCode::system, std::string("driving a collective: ") + error.what());
  }
  if (!status.ok()) {
    fail(work, status);
    return true;
  }
  if (done) succeed(work);
  return done;
}

Status Communicator::drive_to_end(Work& work, Deadline until, bool& done) {
  if (work.stage == Work::Stage::queued) FERRULE_RETURN_IF_ERROR(begin(work));
  while (true) {
    interrupt_.store(false);  // sequentially consistent with abort(), or its request could be missed
    if (abort_requested_.load()) {
      return Status(ErrorCode::aborted, fmt::format("all_reduce #{} was aborted on {}", work.intent.sequence,
                                                    membership_.describe(membership_.rank)));
    }
    if (auto failure = agreement_.failure_of(work.intent.sequence)) return *failure;
    if (work.deadline->passed()) return timed_out(work);
    warn_of_stall(work);
    const Deadline pause = earlier(earlier(until, *work.deadline), work.stall.value_or(*work.deadline));
    auto advanced =
        work.stage == Work::Stage::agreeing ? agree(work, pause) : run_.advance(pause, interrupt_);
    if (!advanced.ok() && advanced.status().code() == ErrorCode::mismatch &&
        work.stage == Work::Stage::running) {
      return settle_disagreement(work, advanced.status());
    }
    FERRULE_RETURN_IF_ERROR(advanced.status());
    if (!*advanced && until.passed()) return {};
    if (!*advanced) continue;
    if (work.stage == Work::Stage::running) {
      done = true;
      return {};
    }
    work.stage = Work::Stage::running;
    FERRULE_RETURN_IF_ERROR(run_.start(work.job));
  }
}

Status Communicator::begin(Work& work) {
  work.deadline = Deadline::after(work.timeout);
  if (defaults_.stall_warn.count() != 0) work.stall = Deadline::after(defaults_.stall_warn);
  work.bytes_before = transport_->counters().bytes_sent;
  work.stage = Work::Stage::agreeing;
  control_.reap();
  if (work.residual != nullptr) FERRULE_RETURN_IF_ERROR(work.update.begin(*work.residual, spare_residual_));
  agreement_.begin(work.intent);
  return {};
}

Result<bool> Communicator::agree(Work& work, Deadline until) {
  while (true) {
    auto agreed = agreement_.step();
    if (!agreed.ok() || *agreed) return agreed;
    if (until.passed() || work.deadline->passed() || abort_requested_.load()) return false;
    FERRULE_RETURN_IF_ERROR(transport_->progress(until));
  }
}

// A data message carried another identity: ask what the others do, and take the answer that has both values.
Status Communicator::settle_disagreement(const Work& work, const Status& seen) {
  agreement_.ask_all();
  const Deadline until = earlier(*work.deadline, Deadline::after(kSettle));
  while (!until.passed() && !abort_requested_.load()) {
    if (auto failure = agreement_.failure_of(work.intent.sequence)) return *failure;
    FERRULE_RETURN_IF_ERROR(transport_->progress(until));
  }
  return Status(ErrorCode::mismatch,
                fmt::format("ranks disagree about all_reduce #{}: {}", work.intent.sequence, seen.text()));
}

void Communicator::fail(Work& work, const Status& why) {
  const bool told = agreement_.failure_of(work.intent.sequence).has_value();
  if (!told) agreement_.tell_failed(work.intent.sequence, why);
  // Where the communicator lives on, its messages are left to end by themselves.
  const auto grace = survives(why.code()) ? std::chrono::nanoseconds(kSettle) : std::chrono::nanoseconds(0);
  work.connection_lost = run_.cancel(Deadline::after(grace));
  transport_->retire(work.intent.sequence);
  control_.flush(Deadline::after(kFarewell));
  agreement_.finish(work.intent.sequence);
  work.update.roll_back();
  work.bytes_sent = transport_->counters().bytes_sent - work.bytes_before;
  work.status = why;
  log::info("all_reduce #{} failed: {}", work.intent.sequence, why.text());
}

void Communicator::succeed(Work& work) {
  transport_->retire(work.intent.sequence);
  agreement_.finish(work.intent.sequence);
  control_.reap();
  work.update.commit();
  work.bytes_sent = transport_->counters().bytes_sent - work.bytes_before;
}

void Communicator::warn_of_stall(Work& work) {
  if (!work.stall.has_value() || !work.stall->passed()) return;
  work.stall.reset();
  log::warn("waiting for {} in all_reduce #{} of {} bytes", missing_ranks(work), work.intent.sequence,
            work.job.plan->count() * element_bytes(work.job.plan->dtype()));
}

Status Communicator::timed_out(const Work& work) const {
  return Status(
      ErrorCode::timeout,
      fmt::format("all_reduce #{} timed out after {} ms on {}, waiting for {}: see whether that rank still "
                  "runs and makes the same calls, or raise FERRULE_TIMEOUT",
                  work.intent.sequence, work.timeout / std::chrono::milliseconds(1),
                  membership_.describe(membership_.rank), missing_ranks(work)));
}

std::string Communicator::missing_ranks(const Work& work) const {
  std::string text;
  if (work.stage == Work::Stage::running) {
    for (const std::int32_t rank : run_.waiting_for()) {
      text += (text.empty() ? "" : ", ") + membership_.describe(rank);
    }
  } else if (agreement_.waiting_for() >= 0) {
    text = membership_.describe(agreement_.waiting_for());
  }
  return text.empty() ? "its peers" : text;
}

}  // namespace ferrule::communicator
