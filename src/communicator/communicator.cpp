#include "communicator/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/log.hpp"

namespace ferrule::communicator {
namespace {

// How long a queued collective waits for its caller to drive it before the progress thread does: handing over
// costs more than most small collectives.
constexpr std::chrono::microseconds kGrace{50};
// For the news of an abort to leave.
constexpr std::chrono::milliseconds kFarewell{200};

const char* check_name(const Defaults& defaults) {
  if (defaults.check_identity) return defaults.check_nonfinite ? "all" : "identity";
  return defaults.check_nonfinite ? "nonfinite" : "off";
}

bool is_overlapping(const Call& call, std::size_t bytes) {
  const auto send = reinterpret_cast<std::uintptr_t>(call.send);
  const auto recv = reinterpret_cast<std::uintptr_t>(call.recv);
  return send != recv && send < recv + bytes && recv < send + bytes;
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

Status check_buffers(const Call& call) {
  const std::size_t bytes_each = element_bytes(call.dtype);
  if (call.count > PTRDIFF_MAX / bytes_each) {
    return invalid(
        fmt::format("count {} of {} is more than memory can hold", call.count, dtype_name(call.dtype)));
  }
  if (call.count == 0) return {};
  if (call.send == nullptr || call.recv == nullptr) {
    return invalid(
        fmt::format("{} is null but count is {}", call.send == nullptr ? "send" : "recv", call.count));
  }
  for (const void* pointer : {call.send, static_cast<const void*>(call.recv)}) {
    if (reinterpret_cast<std::uintptr_t>(pointer) % bytes_each != 0) {
      return invalid(fmt::format("{} is not aligned to its elements ({}, {} bytes)",
                                 pointer == call.send ? "send" : "recv", dtype_name(call.dtype), bytes_each));
    }
  }
  if (is_overlapping(call, call.count * bytes_each)) {
    return invalid("send and recv overlap in part: pass equal pointers for in place, or separate buffers");
  }
  return {};
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
  FERRULE_RETURN_IF_ERROR(made->run_.start_workers(made->defaults_.threads));
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
  const bool left = !queue_.empty();
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

Result<std::shared_ptr<const plan::Plan>> Communicator::find_plan(const plan::Request& request,
                                                                  bool& agreed_before) {
  auto plan = plans_.find(request);
  agreed_before = plan != nullptr;
  if (plan != nullptr) return plan;
  auto made = plan::Plan::make(request, environment_, *find_codec("none"));
  FERRULE_RETURN_IF_ERROR(made.status());
  return *made;
}

Result<std::shared_ptr<Work>> Communicator::all_reduce(const Call& call, bool background) {
  if (!is_valid(call.dtype)) return invalid(fmt::format("{} is no dtype", static_cast<int>(call.dtype)));
  if (!is_valid(call.op)) return invalid(fmt::format("{} is no operation", static_cast<int>(call.op)));
  FERRULE_RETURN_IF_ERROR(check_buffers(call));
  if (call.residual != nullptr && call.residual->count() != call.count) {
    return invalid(
        fmt::format("the residual has {} elements, the tensor {}", call.residual->count(), call.count));
  }
  if (call.residual != nullptr && call.residual->space() != nullptr && !call.on_device && call.count != 0) {
    return invalid(
        "the residual is in device memory, the tensor in host memory: make it with "
        "ferruleResidualCreate");
  }
  if (is_auto_codec(codec_text(call))) FERRULE_RETURN_IF_ERROR(know_cost(codec_text(call)));
  auto work = std::make_shared<Work>();
  const std::lock_guard lock(mutex_);
  if (!broken_.ok()) return broken_;
  auto request = resolve(call);
  FERRULE_RETURN_IF_ERROR(request.status());
  bool known = false;
  auto plan = find_plan(*request, known);
  FERRULE_RETURN_IF_ERROR(plan.status());
  if (call.on_device && call.count != 0) {
    FERRULE_RETURN_IF_ERROR(prepare_device(call, *work));
    FERRULE_RETURN_IF_ERROR(check_kernels(**plan));
  }
  if (!known) plans_.insert(*request, *plan);
  // An empty collective moves no data that would carry its identity: it is agreed on every time. So is one
  // whose input a rank may refuse: nobody is to send to a rank that will not take it.
  work->intent.agreed_before = known && call.count != 0 && !defaults_.check_nonfinite;
  const std::uint64_t draws[] = {
      (*plan)->fingerprint(), call.seed, call.step, call.tensor,
      (defaults_.check_identity ? 1U : 0U) + (defaults_.check_nonfinite ? 2U : 0U)};
  work->intent.identity = plan::hash_bytes(draws, sizeof draws);
  work->intent.sequence = next_sequence_++;
  work->intent.plan = *plan;
  work->intent.draws = {call.seed, call.step, call.tensor, check_name(defaults_)};
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
  work->timeout = call.timeout.count() != 0 ? call.timeout : defaults_.timeout;
  work->background = background;
  if (background && !progress_thread_.joinable()) {
    progress_thread_ = std::thread([this] { run_progress_thread(); });
  }
  queue_.push_back(work);
  if (background) progress_.notify_one();
  return work;
}

Status Communicator::wait(Work& work, Deadline until) {
  log::set_thread_rank(membership_.rank);
  std::unique_lock lock(mutex_);
  while (!work.done.load(std::memory_order_acquire)) {
    if (until.passed()) {
      return Status(ErrorCode::timeout,
                    fmt::format("all_reduce #{} is not done yet; it goes on", work.intent.sequence));
    }
    take_ownership_and_drive(lock, until);
  }
  if (!work.status.ok()) return work.status;
  return work.hold_stream();
}

// Drives the oldest work, or waits while another thread does.
void Communicator::take_ownership_and_drive(std::unique_lock<std::mutex>& lock, Deadline until) {
  if (owned_ || queue_.empty()) {
    const auto latest = Deadline::Clock::now() + std::chrono::seconds(1);
    changed_.wait_until(lock, std::min(until.when(), latest));
    return;
  }
  owned_ = true;
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
  }
  stats_.counters = transport_->counters() - calibrated_;
  stats_.scratch_bytes = run_.scratch_bytes() + (backend_ != nullptr ? backend_->bytes() : 0);
  changed_.notify_all();
  if (!queue_.empty() && queue_.front()->background) progress_.notify_one();
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
      return closing_ || (!owned_ && !queue_.empty() && queue_.front()->background);
    };
    progress_.wait(lock, needed);
    if (progress_.wait_for(lock, kGrace, [this] { return closing_ || owned_ || queue_.empty(); })) continue;
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
  while (!queue_.empty()) take_ownership_and_drive(lock, Deadline::never());
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
