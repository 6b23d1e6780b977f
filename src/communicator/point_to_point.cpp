#include "communicator/point_to_point.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/log.hpp"

namespace ferrule::communicator {
namespace {

// What a rank has sent before it says farewell may arrive after it.
constexpr std::chrono::seconds kFarewellGrace{1};

Deadline::Clock::time_point due_of(const Work& work) {
  const auto room = Deadline::Clock::time_point::max() - work.moved;
  return work.timeout < room
             ? work.moved + std::chrono::duration_cast<Deadline::Clock::duration>(work.timeout)
             : Deadline::Clock::time_point::max();
}

}  // namespace

PointToPoint::PointToPoint(transport::Transport& transport, ControlPlane& control,
                           const transport::Membership& membership)
    : transport_(transport),
      control_(control),
      membership_(membership),
      piece_bytes_(std::min(transport.caps().best_message_bytes, transport.caps().max_message_bytes)),
      peers_(membership.peers.size()) {}

PointToPoint::~PointToPoint() { fail_all(Status(ErrorCode::aborted, "the communicator was destroyed")); }

std::string PointToPoint::label(const Work& work) const {
  const Transfer& transfer = *work.transfer;
  const std::string peer = transfer.peer == kAnyRank ? "any rank" : membership_.describe(transfer.peer);
  return fmt::format("{} {} {} ({} bytes, tag {})", transfer.sends ? "send" : "recv",
                     transfer.sends ? "to" : "from", peer, transfer.bytes, transfer.tag);
}

void PointToPoint::begin(std::shared_ptr<Work> work) {
  work->moved = Deadline::Clock::now();
  if (work->transfer->sends) return offer(work);
  receives_.push_back({std::move(work), kAnyRank, 0, false, 0, 0});
  Receiving& receiving = receives_.back();
  const auto found = std::find_if(offers_.begin(), offers_.end(),
                                  [&](const Offer& each) { return fits(each, *receiving.work->transfer); });
  if (found == offers_.end()) return;
  match(receiving, *found);
  --peers_[static_cast<std::size_t>(found->source)].offers;
  offers_.erase(found);
}

bool PointToPoint::fits(const Offer& offer, const Transfer& transfer) {
  return (transfer.peer == kAnyRank || transfer.peer == offer.source) && transfer.tag == offer.tag;
}

void PointToPoint::offer(const std::shared_ptr<Work>& work) {
  const Transfer& transfer = *work->transfer;
  Peer& peer = peers_[static_cast<std::size_t>(transfer.peer)];
  const bool eager = transfer.bytes <= kEagerBytes && peer.eager < kEagerOffers;
  transport::MessageHeader header;
  header.control_type = static_cast<std::uint8_t>(ControlType::offer);
  header.sequence = peer.next_id++;
  header.slice = eager ? 1 : 0;
  header.chunk = transfer.tag;
  header.plan = transfer.bytes;
  const std::string_view bytes(static_cast<const char*>(transfer.data), eager ? transfer.bytes : 0);
  control_.send(transfer.peer, header, bytes);
  work->bytes_sent = bytes.size() + transport::MessageHeader::kBytes;
  if (!eager) {
    sends_.push_back({work, header.sequence, 0, 0, {}});
    return;
  }
  ++peer.eager;
  end(work, {});
}

void PointToPoint::say(ControlType type, std::int32_t peer, std::uint32_t id, std::string_view text) {
  control_.send_word(type, peer, id, text);
}

void PointToPoint::take(const transport::MessageHeader& header, std::span<const std::byte> payload) {
  switch (static_cast<ControlType>(header.control_type)) {
    case ControlType::offer:
      return take_offer(header, payload);
    case ControlType::piece:
      return take_piece(header, payload);
    default:
      return take_answer(header, payload);
  }
}

void PointToPoint::take_offer(const transport::MessageHeader& header, std::span<const std::byte> payload) {
  Offer offer{header.source, header.sequence, header.chunk, header.plan, std::nullopt};
  const bool eager = header.slice != 0;
  if (eager) offer.payload.emplace(payload.begin(), payload.end());
  if (eager && payload.size() != offer.bytes) {
    log::warn("ignored an offer of {} bytes from rank {} that brings {}", offer.bytes, offer.source,
              payload.size());
    return;
  }
  const auto found = std::find_if(receives_.begin(), receives_.end(), [&](const Receiving& each) {
    return !each.matched && fits(offer, *each.work->transfer);
  });
  if (found != receives_.end()) return match(*found, offer);
  Peer& peer = peers_[static_cast<std::size_t>(offer.source)];
  if (peer.offers >= kMaxOffers) {
    log::warn("dropped a send of rank {}: {} others wait here for their receives", offer.source, peer.offers);
    return;
  }
  ++peer.offers;
  offers_.push_back(std::move(offer));
}

// The receive may be over afterwards; step() takes it away.
void PointToPoint::match(Receiving& receiving, Offer& offer) {
  Work& work = *receiving.work;
  Transfer& transfer = *work.transfer;
  receiving.matched = true;
  receiving.source = offer.source;
  receiving.id = offer.id;
  transfer.source = offer.source;
  work.moved = Deadline::Clock::now();
  if (offer.payload.has_value()) say(ControlType::took, offer.source, offer.id);
  if (offer.bytes != transfer.bytes) {
    const std::string text =
        fmt::format("{} sends {} bytes to {}, which receives {} (tag {}): make both calls equal",
                    membership_.describe(offer.source), offer.bytes, membership_.describe(membership_.rank),
                    transfer.bytes, transfer.tag);
    if (!offer.payload.has_value()) say(ControlType::refuse, offer.source, offer.id, text);
    return end(receiving.work, Status(ErrorCode::mismatch, text));
  }
  if (!offer.payload.has_value()) return grant(receiving);
  if (transfer.bytes != 0) std::memcpy(transfer.data, offer.payload->data(), transfer.bytes);
  end(receiving.work, {});
}

// What the sender may send without waiting for another word.
void PointToPoint::grant(Receiving& receiving) {
  receiving.granted = std::min(receiving.work->transfer->bytes, receiving.arrived + kWindowBytes);
  transport::MessageHeader header;
  header.control_type = static_cast<std::uint8_t>(ControlType::wants);
  header.sequence = receiving.id;
  header.plan = receiving.granted;
  control_.send(receiving.source, header, {});
}

void PointToPoint::take_piece(const transport::MessageHeader& header, std::span<const std::byte> payload) {
  const auto found = std::find_if(receives_.begin(), receives_.end(), [&](const Receiving& each) {
    return each.matched && each.source == header.source && each.id == header.sequence;
  });
  if (found == receives_.end() || found->work->done.load(std::memory_order_relaxed)) return;
  const Transfer& transfer = *found->work->transfer;
  if (header.plan > transfer.bytes || payload.size() > transfer.bytes - header.plan) {
    return end(found->work,
               Status(ErrorCode::corrupt, fmt::format("{}: rank {} sent {} bytes at {}", label(*found->work),
                                                      header.source, payload.size(), header.plan)));
  }
  std::memcpy(static_cast<std::byte*>(transfer.data) + header.plan, payload.data(), payload.size());
  found->arrived += payload.size();
  found->work->moved = Deadline::Clock::now();
  if (found->arrived >= transfer.bytes) return end(found->work, {});
  if (found->arrived + kWindowBytes / 2 >= found->granted && found->granted < transfer.bytes) grant(*found);
}

void PointToPoint::take_answer(const transport::MessageHeader& header, std::span<const std::byte> payload) {
  const auto type = static_cast<ControlType>(header.control_type);
  Peer& peer = peers_[static_cast<std::size_t>(header.source)];
  if (type == ControlType::took) {
    if (peer.eager > 0) --peer.eager;
    return;
  }
  for (Sending& sending : sends_) {
    const bool is_it = sending.work->transfer->peer == header.source && sending.id == header.sequence;
    if (!is_it || sending.work->done.load(std::memory_order_relaxed)) continue;
    sending.work->moved = Deadline::Clock::now();
    if (type == ControlType::wants) {
      const std::size_t limit = std::min<std::uint64_t>(header.plan, sending.work->transfer->bytes);
      sending.limit = std::max(sending.limit, limit);
    }
    if (type != ControlType::refuse) return;
    const std::string text(reinterpret_cast<const char*>(payload.data()), payload.size());
    return end(sending.work, Status(ErrorCode::mismatch, text));
  }
}

void PointToPoint::push(Sending& sending) {
  Work& work = *sending.work;
  const Transfer& transfer = *work.transfer;
  while (sending.posted < sending.limit) {
    const std::size_t bytes = std::min(piece_bytes_, sending.limit - sending.posted);
    transport::Send& piece = sending.pieces.emplace_back();
    piece.peer = transfer.peer;
    piece.payload = {static_cast<const std::byte*>(transfer.data) + sending.posted, bytes};
    piece.header.kind = transport::MessageKind::control;
    piece.header.control_type = static_cast<std::uint8_t>(ControlType::piece);
    piece.header.communicator = membership_.communicator;
    piece.header.source = transport_.rank();
    piece.header.sequence = sending.id;
    piece.header.plan = sending.posted;
    piece.header.payload_bytes = static_cast<std::uint32_t>(bytes);
    transport::Send* pointer = &piece;
    if (const Status status = transport_.post({{&pointer, 1}, {}}); !status.ok()) {
      sending.pieces.pop_back();
      return fail(sending, status);
    }
    sending.posted += bytes;
    work.bytes_sent += bytes + transport::MessageHeader::kBytes;
    work.moved = Deadline::Clock::now();
  }
}

// Frees pieces that have left.
Status PointToPoint::reap(Sending& sending) {
  Status failed;
  for (auto piece = sending.pieces.begin(); piece != sending.pieces.end();) {
    if (!piece->done) {
      ++piece;
      continue;
    }
    if (!piece->status.ok()) failed = piece->status;
    piece = sending.pieces.erase(piece);
  }
  return failed;
}

// Posts what may be posted; true when the send is over. Pieces may leave at once, and then nothing else would
// call again: so they are looked at after they were posted.
bool PointToPoint::ended(Sending& sending) {
  if (sending.work->done.load(std::memory_order_relaxed)) return true;
  push(sending);
  if (const Status failed = reap(sending); !failed.ok()) fail(sending, failed);
  if (sending.pieces.empty() && sending.posted == sending.work->transfer->bytes) end(sending.work, {});
  return sending.work->done.load(std::memory_order_relaxed);
}

// Its memory is the caller's again as soon as it has ended: no piece may be under way then.
void PointToPoint::fail(Sending& sending, const Status& why) {
  for (transport::Send& piece : sending.pieces) {
    if (!piece.done) transport_.cancel(piece);
  }
  sending.pieces.clear();
  end(sending.work, why);
}

void PointToPoint::end(const std::shared_ptr<Work>& work, Status status) {
  if (work->done.load(std::memory_order_relaxed)) return;
  work->status = std::move(status);
  ended_.push_back(work);
  work->done.store(true, std::memory_order_release);
}

void PointToPoint::note_lost(std::int32_t peer, const Status& why) {
  auto& lost = peers_[static_cast<std::size_t>(peer)].lost;
  if (!lost.has_value()) lost.emplace(Deadline::after(kFarewellGrace), why);
}

// Why a transfer cannot wait any longer.
Status PointToPoint::late(const Work& work, Deadline::Clock::time_point now) const {
  const Transfer& transfer = *work.transfer;
  if (due_of(work) <= now) {
    return Status(ErrorCode::timeout,
                  fmt::format("{} timed out after {} ms without progress on {}: see whether that rank still "
                              "runs and makes the matching call, or raise FERRULE_TIMEOUT",
                              label(work), work.timeout / std::chrono::milliseconds(1),
                              membership_.describe(membership_.rank)));
  }
  if (transfer.peer == kAnyRank) return {};
  const auto& lost = peers_[static_cast<std::size_t>(transfer.peer)].lost;
  if (!lost.has_value() || !lost->first.passed()) return {};
  return Status(lost->second.code(), fmt::format("{} failed: {}", label(work), lost->second.text()));
}

std::vector<std::shared_ptr<Work>> PointToPoint::step() {
  const auto now = Deadline::Clock::now();
  for (auto sending = sends_.begin(); sending != sends_.end();) {
    if (Status why = late(*sending->work, now); !why.ok()) fail(*sending, why);
    sending = ended(*sending) ? sends_.erase(sending) : std::next(sending);
  }
  for (auto receiving = receives_.begin(); receiving != receives_.end();) {
    if (Status why = late(*receiving->work, now); !why.ok()) end(receiving->work, std::move(why));
    const bool over = receiving->work->done.load(std::memory_order_relaxed);
    receiving = over ? receives_.erase(receiving) : std::next(receiving);
  }
  return std::exchange(ended_, {});
}

void PointToPoint::fail_all(const Status& why) {
  for (Sending& sending : sends_) fail(sending, why);
  for (Receiving& receiving : receives_) end(receiving.work, why);
}

Deadline PointToPoint::next() const {
  auto soonest = Deadline::Clock::time_point::max();
  for (const Sending& sending : sends_) soonest = std::min(soonest, due_of(*sending.work));
  for (const Receiving& receiving : receives_) soonest = std::min(soonest, due_of(*receiving.work));
  const bool waits = !sends_.empty() || !receives_.empty();
  for (const Peer& peer : peers_) {
    const bool is_due = waits && peer.lost.has_value() && !peer.lost->first.passed();
    if (is_due) soonest = std::min(soonest, peer.lost->first.when());
  }
  return Deadline(soonest);
}

}  // namespace ferrule::communicator
