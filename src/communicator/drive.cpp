// How one collective is driven: begin, agree, run, and what becomes of it. Everything here is done by the one
// thread that owns the transport at the time.
#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.hpp"
#include "communicator/communicator.hpp"
#include "communicator/lineage.hpp"
#include "communicator/nonfinite.hpp"
#include "communicator/result_hash.hpp"

namespace ferrule::communicator {
namespace {

// How long a rank waits for the text that has both values of a disagreement, ...
constexpr std::chrono::seconds kSettle{2};
// ... and to pass on the news of a failure, or to hear them.
constexpr std::chrono::milliseconds kFarewell{200};
constexpr std::chrono::microseconds kNap{200};

const void* on_host(const Work& work, const void* data, const std::vector<std::byte>& fetched) {
  return work.job.backend == nullptr ? data : fetched.data();
}

std::string label(const Work& work) {
  return fmt::format("{} #{}", work.job.plan->name(), work.intent.sequence);
}

bool names_a_collective(std::string_view text) {
  for (int i = 0; i < collectives::kCollectiveCount; ++i) {
    const std::string label = std::string(name(static_cast<collectives::Collective>(i))) + " #";
    if (text.find(label) != std::string_view::npos) return true;
  }
  return false;
}

// Only where all ranks get the same is there anything to compare.
bool compares(const Work& work) { return collectives::replicates(work.job.plan->contract().collective); }

}  // namespace

bool Communicator::drive(Work& work, Deadline until) {
  bool done = false;
  Status status;
  in_collective_ = true;
  try {
    status = drive_to_end(work, until, done);
  } catch (const std::exception& error) {  // no memory: the collective fails, its waiters must still be told
    status = Status(ErrorCode::system, std::string("driving a collective: ") + error.what());
  }
  in_collective_ = false;
  if (!status.ok()) {
    hear_why(work, status);
    fail(work, name_collective(work, status));
    return true;
  }
  if (done) succeed(work);
  return done;
}

Status Communicator::drive_to_end(Work& work, Deadline until, bool& done) {
  if (work.stage == Work::Stage::queued) FERRULE_RETURN_IF_ERROR(begin(work));
  // Clocks are read only where nothing has moved: reading them is a tenth of a small collective.
  for (bool moved = true;;) {
    interrupt_.store(false);  // sequentially consistent with abort(), or its request could be missed
    if (abort_requested_.load()) {
      return Status(ErrorCode::aborted,
                    fmt::format("{} was aborted on {}", label(work), membership_.describe(membership_.rank)));
    }
    if (auto failure = agreement_.failure_of(work.intent.sequence)) return *failure;
    if (!moved && work.deadline->passed()) return timed_out(work);
    if (!moved) call_the_roll(work);
    Deadline pause = earlier(earlier(until, *work.deadline), earlier(probe_at(work), roll_.next()));
    if (transfers_.load() != 0) {
      if (move_transfers()) return {};  // its waiter may hold up what this collective waits for
      pause = earlier(pause, point_to_point_.next());
    }
    auto advanced = advance(work, pause);
    if (!advanced.ok() && advanced.status().code() == ErrorCode::mismatch &&
        work.stage == Work::Stage::running) {
      return settle_disagreement(work, advanced.status());
    }
    FERRULE_RETURN_IF_ERROR(advanced.status());
    moved = *advanced;
    if (!moved && until.passed()) return {};
    if (!moved) continue;
    if (work.stage == Work::Stage::agreeing && work.weight) {
      work.stage = Work::Stage::weighing;
      weights_.begin(work.intent.sequence, *work.weight);
    } else if (work.stage != Work::Stage::running) {
      FERRULE_RETURN_IF_ERROR(start_running(work));
    } else if (defaults_.check_identity && !work.checking && compares(work)) {
      work.checking = true;
      const plan::Plan& plan = *work.job.plan;
      const std::size_t bytes = plan.output_count() * element_bytes(plan.dtype());
      auto host = fetch(work, work.job.output, plan.output_count());
      FERRULE_RETURN_IF_ERROR(host.status());
      identity_.begin(label(work), work.intent.sequence,
                      result_hash(on_host(work, work.job.output, *host), bytes));
    } else {
      done = true;
      return {};
    }
  }
}

Status Communicator::begin(Work& work) {
  note_movement(work, Deadline::Clock::now());
  work.bytes_before = transport_->counters().bytes_sent;
  work.stage = Work::Stage::agreeing;
  control_.reap();
  agreement_.begin(work.intent);
  roll_.begin(work.intent.sequence);
  if (defaults_.check_nonfinite) FERRULE_RETURN_IF_ERROR(refuse_nonfinite(work));
  return work.residual != nullptr ? take_residual(work) : Status();
}

// What an earlier generation has left behind is kept, unless the shrink was told otherwise.
Status Communicator::take_residual(Work& work) {
  FERRULE_RETURN_IF_ERROR(work.update.begin(*work.residual, spare_residuals_));
  const std::uint64_t lineage = descent_.lineage == nullptr ? 0 : descent_.lineage->root.communicator;
  const residual::LastUse last = work.residual->note_use({lineage, descent_.generation});
  if (last.lineage != lineage || last.generation >= descent_.reset_before) return {};
  return work.residual->zero();
}

Status Communicator::refuse_nonfinite(const Work& work) const {
  const plan::Plan& plan = *work.job.plan;
  auto host = fetch(work, work.job.input, plan.input_count());
  FERRULE_RETURN_IF_ERROR(host.status());
  const auto found = find_nonfinite(on_host(work, work.job.input, *host), plan.input_count(), plan.dtype());
  if (!found) return {};
  return Status(ErrorCode::invalid_argument,
                fmt::format("{}: {} has {} at index {} of tensor {} ({} of {}); nothing was sent "
                            "(FERRULE_CHECK=nonfinite)",
                            label(work), membership_.describe(membership_.rank), found->what, found->index,
                            work.job.tensor, plan.input_count(), dtype_name(plan.dtype())));
}

// Returns whether the stage is over.
Result<bool> Communicator::advance(Work& work, Deadline until) {
  if (work.stage == Work::Stage::agreeing) return agree(work, until);
  if (work.stage == Work::Stage::weighing) return weigh(work, until);
  if (work.checking) return check(work, until);
  auto advanced = run_.advance(until, interrupt_);
  note_movement(work, run_.moved());
  // Whatever a transport finds wrong with our messages, the caller's arguments it is not.
  if (!advanced.ok() && advanced.status().code() == ErrorCode::invalid_argument) {
    return Status(ErrorCode::internal, advanced.status().text());
  }
  return advanced;
}

// The deadline says how long nothing may happen: a slow link that moves is no reason to fail, and how long a
// tensor takes is not for the user to guess.
void Communicator::note_movement(Work& work, Deadline::Clock::time_point when) {
  if (when <= work.moved) return;
  work.moved = when;
  const auto room = Deadline::Clock::time_point::max() - when;
  work.deadline = Deadline(work.timeout < room
                               ? when + std::chrono::duration_cast<Deadline::Clock::duration>(work.timeout)
                               : Deadline::Clock::time_point::max());
}

Result<bool> Communicator::agree(Work& work, Deadline until) {
  while (true) {
    auto agreed = agreement_.step();
    if (!agreed.ok() || *agreed) return agreed;
    if (until.passed() || abort_requested_.load()) return false;
    FERRULE_RETURN_IF_ERROR(transport_->progress(earlier(until, *work.deadline)));
    if (transfers_.load() != 0) return false;
  }
}

Result<bool> Communicator::weigh(Work& work, Deadline until) {
  while (true) {
    auto weighed = weights_.step();
    if (!weighed.ok() || *weighed) return weighed;
    if (until.passed() || abort_requested_.load()) return false;
    if (agreement_.failure_of(work.intent.sequence)) return false;
    FERRULE_RETURN_IF_ERROR(transport_->progress(earlier(until, *work.deadline)));
  }
}

Status Communicator::start_running(Work& work) {
  if (work.weight) FERRULE_RETURN_IF_ERROR(scale_input(work));
  work.stage = Work::Stage::running;
  return run_.start(work.job);
}

// The mean of x * (weight / mean of weights). So a residual is in the units that it has in a plain mean, and
// equal weights give that one.
Status Communicator::scale_input(Work& work) {
  const plan::Plan& plan = *work.job.plan;
  const std::size_t bytes = plan.count() * element_bytes(plan.dtype());
  if (scaled_.bytes() < bytes) {
    auto buffer = HugeBuffer::allocate(bytes);
    FERRULE_RETURN_IF_ERROR(buffer.status());
    scaled_ = std::move(*buffer);
  }
  const double mean = weights_.sum() / static_cast<double>(membership_.size());
  scale_elements(work.job.input, scaled_.data(), plan.count(), plan.dtype(), *work.weight / mean);
  work.job.input = scaled_.data();
  return {};
}

Result<bool> Communicator::check(Work& work, Deadline until) {
  while (true) {
    auto equal = identity_.step();
    if (!equal.ok() || *equal) return equal;
    if (until.passed() || abort_requested_.load()) return false;
    if (agreement_.failure_of(work.intent.sequence)) return false;
    FERRULE_RETURN_IF_ERROR(transport_->progress(earlier(until, *work.deadline)));
    if (transfers_.load() != 0) return false;
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
  return Status(ErrorCode::mismatch, fmt::format("ranks disagree about {}: {}", label(work), seen.text()));
}

// Who leaves because of a failure may be gone before the word of those who have seen it is here: it is waited
// for, else this rank would accuse one that has done nothing. Transports call an orderly departure so.
void Communicator::hear_why(const Work& work, const Status& status) {
  if (status.code() != ErrorCode::peer_lost || !status.text().ends_with(" has left")) return;
  const Deadline until = earlier(*work.deadline, Deadline::after(kFarewell));
  while (!agreement_.failure_of(work.intent.sequence) && !until.passed() && !abort_requested_.load()) {
    (void)transport_->progress(until);  // which has failed, and returns at once
    std::this_thread::sleep_for(kNap);
  }
}

// What is known best: a peer that has left after a failure has said before why it did.
Status Communicator::name_collective(const Work& work, const Status& status) const {
  const auto told = agreement_.failure_of(work.intent.sequence);
  const Status& best = status.code() == ErrorCode::peer_lost && told ? *told : status;
  if (names_a_collective(best.text())) return best;
  return Status(best.code(), fmt::format("{} failed on {}: {}", label(work),
                                         membership_.describe(membership_.rank), best.text()));
}

void Communicator::fail(Work& work, const Status& why) {
  const bool told = agreement_.failure_of(work.intent.sequence).has_value();
  if (!told) agreement_.tell_failed(work.intent.sequence, why);
  // Before sends are cancelled: that takes connections by force, and what is on its way there.
  control_.flush(Deadline::after(kFarewell));
  // Where the communicator lives on, its messages are left to end by themselves.
  const auto grace = survives(why.code()) ? std::chrono::nanoseconds(kSettle) : std::chrono::nanoseconds(0);
  work.connection_lost = run_.cancel(Deadline::after(grace));
  transport_->retire(work.intent.sequence);
  forget(work);
  work.update.roll_back();
  work.bytes_sent = transport_->counters().bytes_sent - work.bytes_before;
  work.status = why;
  log::info("{} failed: {}", label(work), why.text());
}

void Communicator::succeed(Work& work) {
  transport_->retire(work.intent.sequence);
  forget(work);
  control_.reap();
  work.update.commit();
  work.result = run_.end_mark();
  work.bytes_sent = transport_->counters().bytes_sent - work.bytes_before;
}

void Communicator::forget(const Work& work) {
  agreement_.finish(work.intent.sequence);
  identity_.finish(work.intent.sequence);
  weights_.finish(work.intent.sequence);
  roll_.end();
}

void Communicator::take_word(const ControlMessage& message) {
  switch (message.type) {
    case ControlType::failed:
      if (!survives(message.code))
        point_to_point_.note_lost(message.source, Status(message.code, message.text));
      return agreement_.take(message);
    case ControlType::agree:
      return agreement_.take(message);
    case ControlType::hash:
      return identity_.take(message);
    case ControlType::weights:
      return weights_.take(message);
    case ControlType::ask:
    case ControlType::here:
    case ControlType::missing:
      return roll_.take(message);
    default:
      return;  // of point to point, which has a handler of its own
  }
}

// ---- a collective in which nothing happens

// Who is missing is asked when it is time for a warning, and again in good time before the deadline, so that
// the error can name who is missing everywhere, not only the neighbour in the schedule.
Deadline Communicator::probe_at(const Work& work) const {
  constexpr std::chrono::nanoseconds kLong = std::chrono::hours(24 * 365);
  const auto last = std::min(work.timeout / 4 * 3, kLong);
  const auto stall = defaults_.stall_warn.count() == 0 ? last : std::min(defaults_.stall_warn, kLong);
  for (const auto wait : {std::min(stall, last), std::max(stall, last)}) {
    if (work.moved + wait > work.probed) return Deadline(work.moved + wait);
  }
  return Deadline::never();
}

void Communicator::call_the_roll(Work& work) {
  if (const Deadline probe = probe_at(work); probe.passed()) {
    work.probed = probe.when();
    roll_.start();
  }
  const auto stalled = Deadline::Clock::now() - work.moved;
  if (!roll_.step() || work.warned || defaults_.stall_warn.count() == 0 || stalled < defaults_.stall_warn) {
    return;
  }
  work.warned = true;
  const bool all = roll_.all_arrived();
  const double megabytes =
      static_cast<double>(work.job.plan->count() * element_bytes(work.job.plan->dtype())) / 1e6;
  log::warn("waiting for {} in {}, {:.1f} MB; {}", all ? missing_ranks(work) : roll_.missing_on_hosts(),
            label(work), megabytes, all ? "all ranks have arrived" : roll_.arrived());
}

Status Communicator::timed_out(const Work& work) const {
  return Status(ErrorCode::timeout,
                fmt::format("{} timed out after {} ms without progress on {}, waiting for {}: "
                            "see whether that rank still "
                            "runs and makes the same calls, or raise FERRULE_TIMEOUT",
                            label(work), work.timeout / std::chrono::milliseconds(1),
                            membership_.describe(membership_.rank), missing_ranks(work)));
}

std::string Communicator::missing_ranks(const Work& work) const {
  if (!roll_.missing().empty()) return roll_.missing();
  std::string text;
  if (work.checking) {
    if (identity_.waiting_for() >= 0) text = membership_.describe(identity_.waiting_for());
  } else if (work.stage == Work::Stage::weighing) {
    if (weights_.waiting_for() >= 0) text = membership_.describe(weights_.waiting_for());
  } else if (work.stage == Work::Stage::running) {
    if (run_.waits_for_input()) text = "its own stream, which has not come to the input yet";
    for (const std::int32_t rank : run_.waiting_for()) {
      text += (text.empty() ? "" : ", ") + membership_.describe(rank);
    }
  } else if (agreement_.waiting_for() >= 0) {
    text = membership_.describe(agreement_.waiting_for());
  }
  return text.empty() ? "its peers" : text;
}

}  // namespace ferrule::communicator
