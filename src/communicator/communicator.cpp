#include "communicator/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/signals.hpp"
#include "communicator/check_call.hpp"

namespace ferrule::communicator {
namespace {

// How long a queued collective waits for its caller to drive it before the progress thread does: handing over
// costs more than most small collectives.
constexpr std::chrono::microseconds kGrace{50};
// For the news of an abort to leave.
constexpr std::chrono::milliseconds kFarewell{200};
// What a rank may send before the others take it: that much fits into every inbox.
constexpr std::size_t kMostAhead = 4 << 20;
constexpr std::size_t kLeastAhead = 64 << 10;  // of a collective: a message has a price of its own

const char* check_name(const Defaults& defaults) {
  if (defaults.check_identity) return defaults.check_nonfinite ? "all" : "identity";
  return defaults.check_nonfinite ? "nonfinite" : "off";
}

Status invalid(std::string text) { return Status(ErrorCode::invalid_argument, std::move(text)); }

// Ranks that share memory are a node; a host's containers that do not are several.
Result<collectives::Topology> make_topology(const transport::Membership& membership,
                                            const std::string& text) {
  if (!text.empty()) return collectives::Topology::parse(text, membership.size());
  std::vector<std::string> hosts;
  for (const transport::Peer& peer : membership.peers) {
    hosts.push_back(peer.host_id.empty() ? peer.host : peer.host_id);
  }
  return collectives::Topology::of_hosts(hosts);
}

}  // namespace

Communicator::Communicator(std::unique_ptr<transport::Transport> transport, transport::Membership membership,
                           Defaults defaults)
    : transport_(std::move(transport)),
      membership_(std::move(membership)),
      defaults_(std::move(defaults)),
      transport_name_(transport_->name()),
      plans_(kPlans),
      trace_(defaults_.trace, membership_.rank, membership_.communicator),
      run_(*transport_, trace_),
      control_(*transport_, membership_.communicator,
               [this](const ControlMessage& message) {
                 take_word(message);
                 interrupt_.store(true, std::memory_order_relaxed);
               }),
      agreement_(control_, membership_, defaults_.first_sequence) {
  control_.set_transfer_handler(
      [this](const transport::MessageHeader& header, std::span<const std::byte> payload) {
        point_to_point_.take(header, payload);
        // The executor would go on sleeping, while the transfer has something to send or somebody to wake.
        if (in_collective_) interrupt_.store(true);
      });
  next_sequence_ = defaults_.first_sequence;
  const transport::Caps caps = transport_->caps();
  environment_.rank = membership_.rank;
  environment_.world = membership_.size();
  environment_.slice_bytes = std::min(
      defaults_.slice_bytes != 0 ? defaults_.slice_bytes : caps.best_message_bytes, caps.max_message_bytes);
  environment_.slices_in_flight =
      defaults_.slices_in_flight != 0 ? defaults_.slices_in_flight : std::max(1U, caps.messages_in_flight);
  environment_.fill_link = defaults_.slices_in_flight == 0;
}

Result<std::unique_ptr<Communicator>> Communicator::make(std::unique_ptr<transport::Transport> transport,
                                                         transport::Membership membership,
                                                         Defaults defaults) {
  std::unique_ptr<Communicator> made(
      new Communicator(std::move(transport), std::move(membership), std::move(defaults)));
  auto topology = make_topology(made->membership_, made->defaults_.topology);
  FERRULE_RETURN_IF_ERROR(topology.status());
  made->environment_.topology = std::make_shared<const collectives::Topology>(std::move(topology).value());
  FERRULE_RETURN_IF_ERROR(made->find_codec("none").status());
  FERRULE_RETURN_IF_ERROR(made->find_codec(without_auto(made->defaults_.codec)).status());
  if (made->defaults_.algorithm != "auto" &&
      collectives::find_algorithm(made->defaults_.algorithm) == nullptr) {
    return invalid(fmt::format("no algorithm is named '{}'", made->defaults_.algorithm));
  }
  {
    const SignalsHeld held;
    FERRULE_RETURN_IF_ERROR(made->run_.start_workers(made->defaults_.threads));
  }
  FERRULE_RETURN_IF_ERROR(made->tune());
  return made;
}

Communicator::~Communicator() {
  close();
  std::unique_lock lock(mutex_);
  closing_ = true;
  progress_.notify_all();
  lock.unlock();
  if (progress_thread_.joinable()) progress_thread_.join();
  // Those who wait for this rank in a collective that it will never begin need not wait in vain. Whoever
  // makes no more calls does not care.
  if (broken_.ok()) {
    agreement_.tell_failed(
        next_sequence_, Status(ErrorCode::peer_lost, membership_.describe(membership_.rank) + " has left"));
  }
  control_.flush(Deadline::after(std::chrono::seconds(1)));
}

void Communicator::close() {
  std::unique_lock lock(mutex_);
  const Deadline until = Deadline::after(defaults_.timeout);
  while (!queue_.empty() && !until.passed()) take_ownership_and_drive(lock, until);
  // Receives that nobody has answered yet are left unanswered; sends have their chance.
  const Deadline last = earlier(until, Deadline::after(kFarewell));
  while (transfers_.load() != 0 && !last.passed()) take_ownership_and_drive(lock, last);
  const bool left = !queue_.empty() || transfers_.load() != 0;
  lock.unlock();
  if (left) abort();
}

bool Communicator::is_broken() {
  const std::lock_guard lock(mutex_);
  return !broken_.ok();
}

Stats Communicator::stats() {
  const std::lock_guard lock(mutex_);
  return stats_;
}

Result<std::shared_ptr<const plan::Plan>> Communicator::find_plan(const plan::Request& request, bool& known) {
  auto plan = plans_.find(request);
  known = plan != nullptr;
  if (plan != nullptr) return plan;
  auto made = plan::Plan::make(request, environment_, *find_codec("none"));
  FERRULE_RETURN_IF_ERROR(made.status());
  return *made;
}

// Where a rank may be done before others have begun, it can send them more than they have room for. So from
// time to time such a collective is agreed on although its plan is known, which brings the ranks together.
// All of them count alike.
bool Communicator::may_run_ahead(const plan::Plan& plan) {
  if (collectives::holds_together(plan.contract().collective)) {
    ahead_bytes_ = 0;
    return true;
  }
  const bool differs = plan.contract().collective == collectives::Collective::all_to_all;
  ahead_bytes_ += std::max(kLeastAhead, plan.count() * element_bytes(plan.dtype()));
  if (ahead_bytes_ <= kMostAhead && !differs) return true;
  ahead_bytes_ = 0;
  return false;
}

Result<std::shared_ptr<Work>> Communicator::start(const Call& call, bool background) {
  FERRULE_RETURN_IF_ERROR(check_call(call, rank(), size()));
  FERRULE_RETURN_IF_ERROR(check_residual_place(call));
  if (is_auto_codec(codec_text(call))) FERRULE_RETURN_IF_ERROR(know_cost(codec_text(call)));
  auto work = std::make_shared<Work>();
  const std::lock_guard lock(mutex_);
  if (!broken_.ok()) return broken_;
  auto request = resolve(call);
  FERRULE_RETURN_IF_ERROR(request.status());
  bool known = false;
  auto plan = find_plan(*request, known);
  FERRULE_RETURN_IF_ERROR(plan.status());
  if (call.on_device && (*plan)->input_count() + (*plan)->output_count() != 0) {
    FERRULE_RETURN_IF_ERROR(prepare_device(call, *work));
    FERRULE_RETURN_IF_ERROR(check_kernels(**plan));
  }
  if (!known) plans_.insert(*request, *plan);
  // An empty collective moves no data that would carry its identity: it is agreed on every time. So is one
  // whose input a rank may refuse: nobody is to send to a rank that will not take it. So is a weighted one:
  // weights move before data does.
  const bool waits = defaults_.check_nonfinite || call.weight.has_value();
  const bool free = may_run_ahead(**plan) && (*plan)->count() != 0 && !waits;
  work->intent.agreed_before = known && free;
  const std::uint64_t draws[] = {
      (*plan)->fingerprint(), call.seed, call.step, call.tensor,
      (defaults_.check_identity ? 1U : 0U) + (defaults_.check_nonfinite ? 2U : 0U) + (call.weight ? 4U : 0U)};
  work->intent.identity = plan::hash_bytes(draws, sizeof draws);
  work->intent.sequence = next_sequence_++;
  work->intent.plan = *plan;
  work->intent.draws = {call.seed, call.step, call.tensor, call.weight.has_value(), check_name(defaults_)};
  work->job = {*plan,
               call.send,
               call.recv,
               &work->update,
               call.seed,
               call.step,
               call.tensor,
               membership_.communicator,
               work->intent.identity,
               work->intent.sequence,
               defaults_.checksum,
               work->job.backend,
               work->job.input_ready};
  // Where nothing is encoded, nothing is left behind.
  work->residual = (*plan)->exact() || membership_.size() == 1 ? nullptr : call.residual;
  work->weight = call.weight;
  work->timeout = call.timeout.count() != 0 ? call.timeout : defaults_.timeout;
  work->background = background;
  if (background && !progress_thread_.joinable()) {
    const SignalsHeld held;
    progress_thread_ = std::thread([this] { run_progress_thread(); });
  }
  queue_.push_back(work);
  if (background) progress_.notify_one();
  if (transfers_.load() != 0) call_owner();
  return work;
}

Status Communicator::wait(Work& work, Deadline until) {
  log::set_thread_rank(membership_.rank);
  std::unique_lock lock(mutex_);
  while (!work.done.load(std::memory_order_acquire)) {
    if (until.passed() && work.transfer != nullptr) {
      return Status(ErrorCode::timeout, "the transfer is not done yet; it goes on");
    }
    if (until.passed()) {
      return Status(ErrorCode::timeout, fmt::format("{} #{} is not done yet; it goes on",
                                                    work.job.plan->name(), work.intent.sequence));
    }
    take_ownership_and_drive(lock, until);
  }
  if (!work.status.ok()) return work.status;
  return work.hold_stream();
}

// Drives the oldest work, or waits while another thread does.
void Communicator::take_ownership_and_drive(std::unique_lock<std::mutex>& lock, Deadline until) {
  if (owned_ || (queue_.empty() && transfers_.load() == 0)) {
    const auto latest = Deadline::Clock::now() + std::chrono::seconds(1);
    changed_.wait_until(lock, std::min(until.when(), latest));
    return;
  }
  owned_ = true;
  if (queue_.empty()) {
    lock.unlock();
    drive_transfers(until);
    lock.lock();
    owned_ = false;
    stats_.counters = transport_->counters() - calibrated_;
    changed_.notify_all();
    progress_.notify_one();
    return;
  }
  const std::shared_ptr<Work> work = queue_.front();
  lock.unlock();
  const bool done = drive(*work, until);
  lock.lock();
  owned_ = false;
  if (done) {
    if (work->stage == Work::Stage::running) add_times(run_.times());
    if (!work->status.ok() && !survives(work->status.code()) && broken_.ok()) broken_ = work->status;
    if (!work->status.ok() && work->connection_lost && broken_.ok()) broken_ = work->status;
    queue_.pop_front();
    end(*work);
    // Nothing behind a fatal failure can succeed: it fails for the same reason, at once.
    for (; !broken_.ok() && !queue_.empty(); queue_.pop_front()) {
      queue_.front()->status = broken_;
      end(*queue_.front());
    }
    if (!broken_.ok() && transfers_.load() != 0) {
      const Status why = broken_;
      owned_ = true;
      lock.unlock();
      fail_transfers(why);
      lock.lock();
      owned_ = false;
    }
  }
  stats_.counters = transport_->counters() - calibrated_;
  stats_.scratch_bytes = run_.scratch_bytes() + (backend_ != nullptr ? backend_->bytes() : 0);
  changed_.notify_all();
  if ((!queue_.empty() && queue_.front()->background) || transfers_.load() != 0) progress_.notify_one();
}

void Communicator::end(Work& work) {
  stats_.collectives += 1;
  work.done.store(true, std::memory_order_release);
}

void Communicator::add_times(const executor::Times& times) {
  stats_.times.encode_ns += times.encode_ns;
  stats_.times.decode_ns += times.decode_ns;
  stats_.times.wait_ns += times.wait_ns;
}

void Communicator::run_progress_thread() {
  log::set_thread_rank(membership_.rank);
  std::unique_lock lock(mutex_);
  while (!closing_) {
    const auto needed = [this] {
      const bool background = !queue_.empty() && queue_.front()->background;
      return closing_ || (!owned_ && (background || (queue_.empty() && transfers_.load() != 0)));
    };
    progress_.wait(lock, needed);
    const auto taken = [this] { return closing_ || owned_ || (queue_.empty() && transfers_.load() == 0); };
    if (progress_.wait_for(lock, kGrace, taken)) continue;
    take_ownership_and_drive(lock, Deadline::never());
  }
}

void Communicator::abort() {
  abort_requested_.store(true);
  interrupt_.store(true);
  transport_->wake();
  std::unique_lock lock(mutex_);
  const bool first = broken_.ok();
  if (first) {
    broken_ = Status(ErrorCode::aborted, fmt::format("the communicator of {} was aborted: make a new one",
                                                     membership_.describe(membership_.rank)));
  }
  // Whoever owns the transport ends its work soon; the rest is ended here.
  while (!queue_.empty() || transfers_.load() != 0) take_ownership_and_drive(lock, Deadline::never());
  if (!first || owned_) return;
  // The others may be in a collective that this rank will never begin.
  owned_ = true;
  lock.unlock();
  agreement_.tell_failed(next_sequence_, broken_);
  control_.flush(Deadline::after(kFarewell));
  lock.lock();
  owned_ = false;
  changed_.notify_all();
}

}  // namespace ferrule::communicator
