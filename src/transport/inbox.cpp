#include "transport/inbox.hpp"

#include <fmt/format.h>

#include <utility>

namespace ferrule::transport {
namespace {

MatchKey key_of(const Recv& recv) {
  return MatchKey::make(recv.peer, recv.sequence, recv.slice, recv.ordinal);
}

MatchKey key_of(const MessageHeader& header) {
  return MatchKey::make(header.source, header.sequence, header.slice, header.ordinal);
}

// True if `a` is `b` or before it, on the circle of 32-bit sequences.
bool at_or_before(std::uint32_t a, std::uint32_t b) { return static_cast<std::int32_t>(b - a) >= 0; }

}  // namespace

Inbox::Inbox(const Membership& membership, InboxLimits limits, Claim claim)
    : membership_(membership), limits_(limits), claim_(claim), peers_(membership.peers.size()) {}

bool Inbox::retired(std::uint32_t sequence) const {
  return retired_.has_value() && at_or_before(sequence, *retired_);
}

std::string Inbox::label(const MessageHeader& header) const {
  return fmt::format("message of {} (sequence {}, slice {}, ordinal {})", membership_.describe(header.source),
                     header.sequence, header.slice, header.ordinal);
}

std::size_t Inbox::queued() const {
  std::size_t sum = 0;
  for (const PeerState& peer : peers_) sum += peer.queued;
  return sum;
}

// ---- receives

Status Inbox::check(std::span<Recv* const> recvs) const {
  for (const Recv* recv : recvs) {
    if (recv->peer < 0 || recv->peer >= membership_.size() || recv->peer == membership_.rank) {
      return {ErrorCode::invalid_argument, fmt::format("receive from rank {}: this is rank {} of {}",
                                                       recv->peer, membership_.rank, membership_.size())};
    }
    if (retired(recv->sequence)) {
      return {
          ErrorCode::invalid_argument,
          fmt::format("receive of sequence {}: sequences up to {} are retired", recv->sequence, *retired_)};
    }
    const MatchTable::Entry* entry = table_.find(key_of(*recv));
    if (entry != nullptr && entry->recv != nullptr) {
      return {ErrorCode::invalid_argument,
              fmt::format("receive from rank {} (sequence {}, slice {}, ordinal {}) is posted twice",
                          recv->peer, recv->sequence, recv->slice, recv->ordinal)};
    }
  }
  return {};
}

void Inbox::post(Recv& recv) {
  const MatchKey key = key_of(recv);
  recv.done = false;
  if (MatchTable::Entry* entry = table_.find(key); entry != nullptr) {
    if (entry->recv != nullptr) {  // twice in one batch, which check() cannot see
      return end(recv, Status(ErrorCode::invalid_argument, "the same receive stands twice in a batch"));
    }
    Received message = take_early(entry->early);
    table_.erase(entry);
    if (complete(recv, message)) return;
  }
  table_.insert({key, &recv});
  ++state(recv.peer).posted;
}

void Inbox::cancel(Recv& recv) {
  if (recv.done || recv.peer < 0 || recv.peer >= membership_.size()) return;
  MatchTable::Entry* entry = table_.find(key_of(recv));
  if (entry == nullptr || entry->recv != &recv) return;
  table_.erase(entry);
  --state(recv.peer).posted;
  end(recv, Status(ErrorCode::aborted, "the receive was cancelled"));
}

std::size_t Inbox::fail(std::int32_t peer, const Status& status) {
  if (state(peer).posted == 0) return 0;
  std::vector<Recv*> lost;
  for (const MatchTable::Entry& entry : table_.places()) {
    if (entry.recv != nullptr && entry.recv->peer == peer) lost.push_back(entry.recv);
  }
  for (Recv* recv : lost) {
    table_.erase(table_.find(key_of(*recv)));
    end(*recv, status);
  }
  state(peer).posted = 0;
  return lost.size();
}

void Inbox::end(Recv& recv, Status status) {
  recv.status = std::move(status);
  recv.done = true;
  ++ended_;
}

// ---- messages

Status Inbox::check_header(const MessageHeader& header, std::size_t payload_bytes, std::int32_t from) const {
  const auto bad = [&](std::string text) {
    return Status(ErrorCode::corrupt, fmt::format("rank {}: {}", membership_.rank, std::move(text)));
  };
  if (header.communicator != membership_.communicator) {
    return bad(
        fmt::format("a message for communicator {:#x} arrived (it says it is from rank {}), this is {:#x}",
                    header.communicator, header.source, membership_.communicator));
  }
  if (header.source < 0 || header.source >= membership_.size() || header.source == membership_.rank) {
    return bad(fmt::format("a message says it is from rank {}, which is no peer here ({} ranks)",
                           header.source, membership_.size()));
  }
  if (from >= 0 && header.source != from) {
    return bad(fmt::format("a message on the connection to {} says it is from rank {}",
                           membership_.describe(from), header.source));
  }
  if (header.payload_bytes != payload_bytes) {
    return bad(fmt::format("{} was cut: its header says {} bytes, {} arrived", label(header),
                           header.payload_bytes, payload_bytes));
  }
  return {};
}

Status Inbox::deliver(Received message, std::int32_t from) {
  FERRULE_RETURN_IF_ERROR(check_header(message.header(), message.payload().size(), from));
  if (message.header().kind == MessageKind::control) return deliver_control(std::move(message));
  if (retired(message.header().sequence)) return {};  // late: dropped, which releases it
  return deliver_data(std::move(message));
}

Status Inbox::deliver_data(Received message) {
  const MatchKey key = key_of(message.header());
  MatchTable::Entry* entry = table_.find(key);
  if (entry != nullptr && entry->recv != nullptr) {
    Recv& recv = *entry->recv;
    if (complete(recv, message)) {
      table_.erase(entry);
      --state(recv.peer).posted;
    }
    return {};
  }
  if (entry != nullptr) {
    // The same message again. That is right only if the first was taken back by its sender.
    Received first = take_early(entry->early);
    table_.erase(entry);
    if (claim_ == nullptr || claim_(first.handle())) {
      return {ErrorCode::corrupt, fmt::format("{} arrived twice", label(message.header()))};
    }
  }
  return queue_early(key, std::move(message));
}

Status Inbox::queue_early(const MatchKey& key, Received message) {
  FERRULE_RETURN_IF_ERROR(reserve(message.header()));
  if (early_free_.empty()) {
    early_free_.push_back(static_cast<std::uint32_t>(early_.size()));
    early_.emplace_back();
  }
  const std::uint32_t index = early_free_.back();
  early_free_.pop_back();
  early_[index] = std::move(message);
  table_.insert({key, nullptr, index});
  return {};
}

Received Inbox::take_early(std::uint32_t index) {
  Received message = std::exchange(early_[index], Received());
  early_free_.push_back(index);
  unreserve(message.header());
  return message;
}

Status Inbox::reserve(const MessageHeader& header) {
  PeerState& peer = state(header.source);
  const bool too_many = peer.queued >= limits_.messages;
  const bool too_long = peer.queued > 0 && peer.queued_bytes + header.payload_bytes > limits_.bytes;
  if (too_many || too_long) {
    return {
        ErrorCode::corrupt,
        fmt::format("{} has sent too far ahead: {} messages of {} bytes are queued (limits {} and {}), and "
                    "another of {} bytes came; do all ranks issue the same collectives?",
                    membership_.describe(header.source), peer.queued, peer.queued_bytes, limits_.messages,
                    limits_.bytes, header.payload_bytes)};
  }
  ++peer.queued;
  peer.queued_bytes += header.payload_bytes;
  return {};
}

void Inbox::unreserve(const MessageHeader& header) {
  PeerState& peer = state(header.source);
  --peer.queued;
  peer.queued_bytes -= header.payload_bytes;
}

bool Inbox::complete(Recv& recv, Received& message) {
  if (claim_ != nullptr && !claim_(message.handle())) return false;
  Status status = verify(recv, message);
  if (status.ok()) recv.message = std::move(message);
  end(recv, std::move(status));
  return true;
}

Status Inbox::verify(const Recv& recv, const Received& message) const {
  const MessageHeader& header = message.header();
  if (header.plan != recv.plan || header.payload_bytes != recv.bytes) {
    return {ErrorCode::mismatch,
            fmt::format(
                "{}: it has {} bytes of plan {:#x}, rank {} expects {} bytes of plan {:#x}; do all ranks "
                "pass the same count, dtype, operation, codec and algorithm?",
                label(header), header.payload_bytes, header.plan, membership_.rank, recv.bytes, recv.plan)};
  }
  if (header.payload_checksum == 0) return {};
  const std::uint32_t computed = payload_checksum(message.payload());
  if (computed != header.payload_checksum) {
    return {ErrorCode::corrupt,
            fmt::format("{}: the checksum of its payload is {:#010x}, {} sent {:#010x}", label(header),
                        computed, membership_.describe(header.source), header.payload_checksum)};
  }
  return {};
}

// ---- control messages and retirement

Status Inbox::deliver_control(Received message) {
  FERRULE_RETURN_IF_ERROR(reserve(message.header()));
  control_.push_back(std::move(message));
  return {};
}

std::size_t Inbox::dispatch_control() {
  if (control_.empty() || handler_ == nullptr) return 0;
  std::vector<Received> batch;
  batch.swap(control_);  // the handler may post, and so make more arrive
  for (Received& message : batch) {
    unreserve(message.header());
    handler_(message.header(), message.payload());
    message.release();
  }
  return batch.size();
}

void Inbox::retire(std::uint32_t sequence) {
  if (!retired(sequence)) retired_ = sequence;
  if (early_free_.size() == early_.size()) return;
  for (std::uint32_t index = 0; index < early_.size(); ++index) {
    const MatchKey key = key_of(early_[index].header());
    MatchTable::Entry* entry = table_.find(key);
    if (entry == nullptr || entry->early != index || !retired(early_[index].header().sequence)) continue;
    table_.erase(entry);
    take_early(index).release();
  }
}

}  // namespace ferrule::transport
