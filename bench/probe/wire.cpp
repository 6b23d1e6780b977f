#include "bench/probe/wire.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ferrule::probe {
namespace {

using Clock = Deadline::Clock;

// Collectives begin near 0, calibration a little before.
constexpr std::uint32_t kSequence = 0xc0000000;
constexpr std::uint64_t kPlan = 0x70726f6265;  // "probe": a rank that is elsewhere is told apart

std::size_t bytes_of_message(const transport::Caps& caps) {
  return std::clamp<std::size_t>(std::min(caps.best_message_bytes, caps.max_message_bytes), 1, kMostBytes);
}

}  // namespace

Wire::Wire(transport::Transport& transport, const transport::Membership& membership,
           std::chrono::nanoseconds timeout)
    : transport_(transport),
      membership_(membership),
      timeout_(timeout),
      message_bytes_(bytes_of_message(transport.caps())),
      sent_(membership.peers.size()),
      received_(membership.peers.size()) {}

Result<std::unique_ptr<Wire>> Wire::make(transport::Transport& transport,
                                         const transport::Membership& membership,
                                         std::chrono::nanoseconds timeout) {
  std::unique_ptr<Wire> wire(new Wire(transport, membership, timeout));
  auto memory = HugeBuffer::allocate(2 * kMostBytes);
  FERRULE_RETURN_IF_ERROR(memory.status());
  wire->memory_ = std::move(memory).value();
  return wire;
}

Wire::~Wire() {
  for (std::size_t i = 0; i < recvs_used_; ++i) {
    if (!recvs_[i]->done) transport_.cancel(*recvs_[i]);
    recvs_[i]->message.release();
  }
  for (std::size_t i = 0; i < sends_used_; ++i) {
    if (!sends_[i]->done) transport_.cancel(*sends_[i]);
  }
  transport_.retire(kSequence);
}

transport::Send& Wire::next_send(std::int32_t peer, std::span<const std::byte> payload) {
  if (sends_used_ == sends_.size()) sends_.push_back(std::make_unique<transport::Send>());
  transport::Send& send = *sends_[sends_used_++];
  send = transport::Send();
  send.peer = peer;
  send.payload = payload;
  send.header.communicator = membership_.communicator;
  send.header.source = membership_.rank;
  send.header.sequence = kSequence;
  send.header.slice = sent_[static_cast<std::size_t>(peer)]++;
  send.header.plan = kPlan;
  send.header.payload_bytes = static_cast<std::uint32_t>(payload.size());
  return send;
}

transport::Recv& Wire::next_recv(std::int32_t peer, std::size_t bytes) {
  if (recvs_used_ == recvs_.size()) recvs_.push_back(std::make_unique<transport::Recv>());
  transport::Recv& recv = *recvs_[recvs_used_++];
  recv = transport::Recv();
  recv.peer = peer;
  recv.sequence = kSequence;
  recv.slice = received_[static_cast<std::size_t>(peer)]++;
  recv.plan = kPlan;
  recv.bytes = bytes;
  return recv;
}

void Wire::forget() {
  sends_used_ = 0;
  recvs_used_ = 0;
}

Status Wire::wait(const transport::Request& request, std::int32_t peer) {
  const Deadline deadline = Deadline::after(timeout_);
  while (!request.done) {
    if (deadline.passed()) {
      return Status(
          ErrorCode::timeout,
          fmt::format(
              "no message of {} came to {} within {} ms: see whether it still runs, or raise --timeout",
              membership_.describe(peer), membership_.describe(membership_.rank),
              timeout_ / std::chrono::milliseconds(1)));
    }
    FERRULE_RETURN_IF_ERROR(transport_.progress(deadline));
  }
  return request.status;
}

Status Wire::send(std::int32_t peer, std::uint64_t word) {
  word_ = word;
  transport::Send& send = next_send(peer, std::as_bytes(std::span(&word_, 1)));
  transport::Send* const sends[] = {&send};
  if (const Status posted = transport_.post({sends, {}}); !posted.ok()) {
    --sends_used_;
    return posted;
  }
  FERRULE_RETURN_IF_ERROR(wait(send, peer));
  forget();
  return {};
}

Result<std::uint64_t> Wire::receive(std::int32_t peer) {
  transport::Recv& recv = next_recv(peer, sizeof(std::uint64_t));
  transport::Recv* const recvs[] = {&recv};
  if (const Status posted = transport_.post({{}, recvs}); !posted.ok()) {
    --recvs_used_;
    return posted;
  }
  FERRULE_RETURN_IF_ERROR(wait(recv, peer));
  std::uint64_t word = 0;
  std::memcpy(&word, recv.message.payload().data(), sizeof word);
  recv.message.release();
  forget();
  return word;
}

Result<double> Wire::send_train(std::int32_t peer, std::uint32_t messages) {
  FERRULE_RETURN_IF_ERROR(receive(peer).status());  // all is posted there
  std::vector<transport::Send*> sends;
  for (std::uint32_t i = 0; i < messages; ++i) {
    sends.push_back(&next_send(peer, {memory_.data() + i * message_bytes_, message_bytes_}));
  }
  const auto start = Clock::now();
  if (const Status posted = transport_.post({sends, {}}); !posted.ok()) {
    forget();
    return posted;
  }
  for (const transport::Send* send : sends) FERRULE_RETURN_IF_ERROR(wait(*send, peer));
  forget();
  FERRULE_RETURN_IF_ERROR(receive(peer).status());
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Status Wire::receive_train(std::int32_t peer, std::uint32_t messages) {
  std::vector<transport::Recv*> recvs;
  for (std::uint32_t i = 0; i < messages; ++i) recvs.push_back(&next_recv(peer, message_bytes_));
  if (const Status posted = transport_.post({{}, recvs}); !posted.ok()) {
    forget();
    return posted;
  }
  word_ = messages;
  transport::Send& ready = next_send(peer, std::as_bytes(std::span(&word_, 1)));
  transport::Send* const sends[] = {&ready};
  if (const Status posted = transport_.post({sends, {}}); !posted.ok()) {
    --sends_used_;
    return posted;
  }
  std::byte* to = memory_.data() + kMostBytes;
  for (transport::Recv* recv : recvs) {
    FERRULE_RETURN_IF_ERROR(wait(*recv, peer));
    std::memcpy(to, recv->message.payload().data(), message_bytes_);
    recv->message.release();
    to += message_bytes_;
  }
  FERRULE_RETURN_IF_ERROR(wait(ready, peer));
  forget();
  return send(peer, messages);
}

Status Wire::barrier() {
  const std::int64_t world = membership_.size();
  for (std::int64_t distance = 1; distance < world; distance *= 2) {
    const auto to = static_cast<std::int32_t>((membership_.rank + distance) % world);
    const auto from = static_cast<std::int32_t>((membership_.rank + world - distance) % world);
    FERRULE_RETURN_IF_ERROR(send(to, 0));
    FERRULE_RETURN_IF_ERROR(receive(from).status());
  }
  return {};
}

}  // namespace ferrule::probe
