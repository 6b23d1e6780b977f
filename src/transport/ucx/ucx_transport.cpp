#include "transport/ucx/ucx_transport.hpp"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "base/log.hpp"
#include "transport/ucx/am_ids.hpp"

namespace ferrule::transport::ucx {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr std::size_t kMaxMessageBytes = std::size_t{1} << 30;
// In memory, fewer slices in flight keep ranks in lockstep, so that each waits for the other's time slices.
// On a slow wire, more overflow the queue where several ranks send to one. See docs/performance.md.
constexpr std::uint32_t kSharedMemoryInFlight = 16;
constexpr std::uint32_t kTcpInFlight = 8;
constexpr std::uint32_t kSlowTcpInFlight = 2;
constexpr std::size_t kSlowTcpMessageBytes = 64512;
/// How long cancelling a send may take: UCX completes the sends of a closed endpoint at once.
constexpr seconds kCancelLimit{2};
/// UCX's keepalive runs only when it is progressed.
constexpr seconds kLongestSleep{1};
/// While a peer is suspected, look again this often.
constexpr milliseconds kSuspectSleep{20};
/// After so many rounds of polls in which UCX stayed busy, each is followed by a nap.
constexpr std::uint32_t kBusyRounds = 4;
constexpr std::chrono::microseconds kNap{100};
/// Looking at process descriptors costs a system call: once in this many polls.
constexpr std::uint32_t kPollsPerLook = 256;

/// How long a rank alone computes between two waits, at most about.
constexpr std::chrono::microseconds kRanksTurn{1500};

double ranks_a_core(const Membership& membership) {
  const auto& mine = membership.peers[static_cast<std::size_t>(membership.rank)].host_id;
  const auto here = std::count_if(membership.peers.begin(), membership.peers.end(),
                                  [&](const Peer& peer) { return peer.host_id == mine; });
  cpu_set_t cores;
  const int count = ::sched_getaffinity(0, sizeof cores, &cores) == 0 ? CPU_COUNT(&cores) : 1;
  return std::max(1.0, static_cast<double>(here) / count);
}

}  // namespace

UcxTransport::UcxTransport(const Membership& membership, PathChoice choice, Context context, Worker worker)
    : membership_(membership),
      ranks_a_core_(ranks_a_core(membership)),
      kept_(std::chrono::duration_cast<Deadline::Clock::duration>(kRanksTurn * ranks_a_core_)),
      choice_(std::move(choice)),
      context_(std::move(context)),
      worker_(std::move(worker)),
      inbox_(membership),
      links_(membership.peers.size()) {
  for (std::int32_t peer = 0; peer < size(); ++peer) {
    link(peer).transport = this;
    link(peer).peer = peer;
  }
}

Status UcxTransport::prepare() {
  FERRULE_RETURN_IF_ERROR(install_handlers());
  int events = -1;
  if (const auto status = ucp_worker_get_efd(worker_.get(), &events); status != UCS_OK) {
    return ucx_error("asking for the worker's event descriptor", status);
  }
  return wake_set_.open(events);
}

Caps UcxTransport::caps() const {
  // Must be the same on all ranks, so it depends on nothing that only this rank sees.
  const bool shared_memory = choice_.path == Path::shared_memory || choice_.path == Path::custom ||
                             (choice_.path == Path::automatic && membership_.single_host());
  Caps caps;
  caps.best_message_bytes = shared_memory ? kSharedMemoryMessageBytes : kTcpMessageBytes;
  caps.max_message_bytes = kMaxMessageBytes;
  caps.messages_in_flight = shared_memory ? kSharedMemoryInFlight : kTcpInFlight;
  if (!shared_memory && !membership_.single_host()) {
    caps.slow_message_bytes = kSlowTcpMessageBytes;
    caps.slow_messages_in_flight = kSlowTcpInFlight;
  }
  return caps;
}

// ---- sends

Status UcxTransport::check_sends(std::span<Send* const> sends) const {
  for (const Send* send : sends) {
    if (send->peer < 0 || send->peer >= membership_.size() || send->peer == membership_.rank) {
      return {ErrorCode::invalid_argument, fmt::format("send to rank {}: this is rank {} of {}", send->peer,
                                                       membership_.rank, membership_.size())};
    }
    if (send->payload.size() > kMaxMessageBytes || send->header.payload_bytes < send->payload.size()) {
      return {ErrorCode::invalid_argument,
              fmt::format("send to rank {}: payload of {} bytes, its header says {}, at most {} are possible",
                          send->peer, send->payload.size(), send->header.payload_bytes, kMaxMessageBytes)};
    }
  }
  return {};
}

Status UcxTransport::post(const Batch& batch) {
  FERRULE_RETURN_IF_ERROR(check_sends(batch.sends));
  FERRULE_RETURN_IF_ERROR(inbox_.check(batch.recvs));
  for (Recv* recv : batch.recvs) {
    inbox_.post(*recv);
    if (!recv->done && !link(recv->peer).gone.ok()) news_.push_back(recv->peer);  // in vain: see progress()
  }
  for (Send* send : batch.sends) start(*send);
  return {};
}

UcxTransport::SendOp& UcxTransport::take_op() {
  if (free_ops_.empty()) {
    ops_.emplace_back();
    free_ops_.push_back(&ops_.back());
  }
  SendOp& op = *free_ops_.back();
  free_ops_.pop_back();
  return op;
}

void UcxTransport::start(Send& send) {
  send.done = false;
  Link& to = link(send.peer);
  if (!to.gone.ok()) {
    send.status = to.gone;
    send.done = true;
    ++ended_sends_;
    return fail(to.gone);
  }
  SendOp& op = take_op();
  op.transport = this;
  op.peer = send.peer;
  op.send = &send;
  send.transport_data = &op;
  seal(send.header, op.header);
  ++to.sent;
  ++counters_.messages_sent;
  counters_.bytes_sent += MessageHeader::kBytes + send.payload.size();

  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS |
                       UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  // Rendezvous would wait for the receiver and, at 1 Gbit/s, cost half of the rate when three send to one.
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  param.cb.send = on_sent;
  param.user_data = &op;
  ucs_status_ptr_t request = nullptr;
  call_ucx([&] {
    request = ucp_am_send_nbx(to.endpoint, kMessageId, op.header, MessageHeader::kBytes, send.payload.data(),
                              send.payload.size(), &param);
  });
  if (abandoned_) return;  // the send has ended
  if (request == nullptr || UCS_PTR_IS_ERR(request)) finish(op, UCS_PTR_STATUS(request));
}

void UcxTransport::on_sent(void* request, ucs_status_t status, void* op) {
  auto& sent = *static_cast<SendOp*>(op);
  sent.transport->finish(sent, status);
  ucp_request_free(request);
}

void UcxTransport::finish(SendOp& op, ucs_status_t status) {
  if (Send* send = std::exchange(op.send, nullptr); send != nullptr) {
    send->status = status == UCS_OK ? Status() : send_error(op.peer, status);
    send->transport_data = nullptr;
    send->done = true;
    ++ended_sends_;
  }
  free_ops_.push_back(&op);
}

Status UcxTransport::send_error(std::int32_t peer, ucs_status_t status) {
  if (const Status& gone = link(peer).gone; !gone.ok()) return gone;
  return {ErrorCode::peer_lost, fmt::format("sending to {} failed: {} (UCX)", membership_.describe(peer),
                                            ucs_status_string(status))};
}

void UcxTransport::cancel(Send& send) {
  if (send.done || send.transport_data == nullptr) return;
  auto& op = *static_cast<SendOp*>(send.transport_data);
  close_link(link(op.peer), {ErrorCode::aborted, fmt::format("the connection to {} was given up with a send "
                                                             "that was cancelled",
                                                             membership_.describe(op.peer))});
  drive_until(Deadline::after(kCancelLimit), [&] { return send.done; });
  if (!send.done) {
    log::warn("UCX kept a cancelled send to {} for {} s; its payload may still be read",
              membership_.describe(op.peer), kCancelLimit.count());
    op.send = nullptr;
    send.done = true;
    ++ended_sends_;
  }
  send.status = Status(ErrorCode::aborted, "the send was cancelled");
}

// ---- progress

Status UcxTransport::progress(Deadline deadline) {
  const auto before = ended();
  drive_until(deadline, [&] {
    const bool handled = inbox_.dispatch_control() > 0;
    return handled || ended() != before || !fatal_.ok() || woken_.exchange(false, std::memory_order_acquire);
  });
  return fatal_;
}

void UcxTransport::advance() {
  if (connecting_) look_for_deaths(Deadline::after(seconds(0)));
  if (abandoned_) return;
  progress_ucx();
  if (!news_.empty()) look_at_news();
  if (suspects_ > 0) look_at_suspects();
  if (!requests_.empty()) reap();
  if (++polls_ % kPollsPerLook != 0) return;
  look_for_deaths(Deadline::after(seconds(0)));
  if (guard_ != nullptr && guarded_until_.passed()) guard_.reset();
}

/// Did anything happen?
bool UcxTransport::progress_ucx() {
  unsigned happened = 0;
  call_ucx([&] { happened = ucp_worker_progress(worker_.get()); });
  return happened != 0;
}

void UcxTransport::sleep(Deadline deadline) {
  if (abandoned_) return;
  ucs_status_t armed = UCS_ERR_BUSY;
  call_ucx([&] { armed = ucp_worker_arm(worker_.get()); });
  if (armed == UCS_ERR_BUSY) {
    // Something has arrived, or a send waits for room at a peer, which raises no event: then nap.
    if (++busy_rounds_ > kBusyRounds) std::this_thread::sleep_for(kNap);
    return look_for_deaths(Deadline::after(seconds(0)));
  }
  busy_rounds_ = 0;
  if (armed != UCS_OK) return fail(ucx_error("arming the worker", armed));
  look_for_deaths(
      earlier(deadline, suspects_ > 0 ? Deadline::after(kSuspectSleep) : Deadline::after(kLongestSleep)));
}

void UcxTransport::wake() {
  woken_.store(true, std::memory_order_release);
  wake_set_.wake();
}

}  // namespace ferrule::transport::ucx
