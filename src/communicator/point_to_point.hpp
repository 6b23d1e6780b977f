// Sends and receives between two ranks of a communicator, beside its collectives and in no order with them.
//
// A send offers its bytes; where the receiver has a receive that fits (source and tag, in the order of their
// calls) it asks for them, a window at a time, and they come in pieces that are copied to where they belong.
// Up to kEagerBytes travel with the offer. So a receiver never holds more than it has asked for, but for
// kEagerOffers small messages of each peer. All of it travels as control messages: nothing here waits for a
// collective, and no collective for anything here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/deadline.hpp"
#include "communicator/control.hpp"
#include "communicator/work.hpp"
#include "transport/registry.hpp"
#include "transport/transport.hpp"

namespace ferrule::communicator {

inline constexpr std::int32_t kAnyRank = -1;

/// Used by the transport's owner only.
class PointToPoint {
 public:
  static constexpr std::size_t kEagerBytes = ControlPlane::kMaxTextBytes;
  static constexpr std::uint32_t kEagerOffers = 64;

  PointToPoint(transport::Transport& transport, ControlPlane& control,
               const transport::Membership& membership);
  ~PointToPoint();

  /// A work with a Transfer begins.
  void begin(std::shared_ptr<Work> work);
  /// A message for this has come in.
  void take(const transport::MessageHeader& header, std::span<const std::byte> payload);
  /// A rank says that it takes part in nothing more.
  void note_lost(std::int32_t peer, const Status& why);
  /// Sends what can be sent, and ends what is over or late. Returns the works that have ended since the last
  /// call.
  std::vector<std::shared_ptr<Work>> step();
  /// Ends all of them.
  void fail_all(const Status& why);
  /// When step() is due although nothing happens.
  Deadline next() const;

 private:
  // A send that has been offered.
  struct Sending {
    std::shared_ptr<Work> work;
    std::uint32_t id = 0;
    std::size_t limit = 0;   // bytes that the receiver has asked for
    std::size_t posted = 0;  // bytes
    std::list<transport::Send> pieces;
  };
  // A receive; `id` and the source are known once it has met an offer.
  struct Receiving {
    std::shared_ptr<Work> work;
    std::int32_t source = kAnyRank;
    std::uint32_t id = 0;
    bool matched = false;
    std::size_t arrived = 0;  // bytes
    std::size_t granted = 0;  // bytes that the sender may send
  };
  // An offer that no receive fits yet.
  struct Offer {
    std::int32_t source = 0;
    std::uint32_t id = 0;
    std::uint32_t tag = 0;
    std::uint64_t bytes = 0;
    std::optional<std::vector<std::byte>> payload;  // eager
  };
  struct Peer {
    std::uint32_t next_id = 0;
    std::uint32_t eager = 0;  // offers with their bytes that the peer has not taken
    std::size_t offers = 0;   // of the peer's, waiting here
    std::optional<std::pair<Deadline, Status>> lost;
  };
  static constexpr std::size_t kMaxOffers = 4096;       // of a peer
  static constexpr std::size_t kWindowBytes = 1 << 20;  // of a send under way

  void offer(const std::shared_ptr<Work>& work);
  void take_offer(const transport::MessageHeader& header, std::span<const std::byte> payload);
  void take_piece(const transport::MessageHeader& header, std::span<const std::byte> payload);
  void take_answer(const transport::MessageHeader& header, std::span<const std::byte> payload);
  static bool fits(const Offer& offer, const Transfer& transfer);
  void match(Receiving& receiving, Offer& offer);
  void say(ControlType type, std::int32_t peer, std::uint32_t id, std::string_view text = {});
  void grant(Receiving& receiving);
  void push(Sending& sending);
  Status reap(Sending& sending);
  bool ended(Sending& sending);
  void fail(Sending& sending, const Status& why);
  Status late(const Work& work, Deadline::Clock::time_point now) const;
  void end(const std::shared_ptr<Work>& work, Status status);
  std::string label(const Work& work) const;

  transport::Transport& transport_;
  ControlPlane& control_;
  const transport::Membership& membership_;
  std::size_t piece_bytes_;
  std::vector<Peer> peers_;
  std::list<Sending> sends_;
  std::list<Receiving> receives_;
  std::list<Offer> offers_;
  std::vector<std::shared_ptr<Work>> ended_;
};

}  // namespace ferrule::communicator
