// Messages between two ranks on the bare transport, before a communicator takes it over.
//
// They have a sequence of their own, long before any collective's, and are counted for each peer, so that
// whatever one rank sends the other receives in the same order.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/huge_buffer.hpp"
#include "ferrule/status.hpp"
#include "transport/registry.hpp"
#include "transport/transport.hpp"

namespace ferrule::probe {

/// Bytes of the longest train: both sides have that much memory for it.
inline constexpr std::size_t kMostBytes = 16 << 20;

class Wire {
 public:
  /// Every wait of its own ends after `timeout`, with an error that names the peer.
  static Result<std::unique_ptr<Wire>> make(transport::Transport& transport,
                                            const transport::Membership& membership,
                                            std::chrono::nanoseconds timeout);
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;
  /// Takes back what is under way, and retires the sequence.
  ~Wire();

  /// Payload of the messages of a train: what the transport is fastest with.
  std::size_t message_bytes() const { return message_bytes_; }
  std::uint32_t most_messages() const { return static_cast<std::uint32_t>(kMostBytes / message_bytes_); }

  /// One small message; returns when its memory is free.
  Status send(std::int32_t peer, std::uint64_t word);
  Result<std::uint64_t> receive(std::int32_t peer);

  /// A train: the receiver posts all its receives, says so, copies each message out of the transport's memory
  /// as it comes, and answers the last. Returns the seconds from the first post to that answer.
  Result<double> send_train(std::int32_t peer, std::uint32_t messages);
  Status receive_train(std::int32_t peer, std::uint32_t messages);

  /// Nobody leaves before everybody has come. ceil(log2 world) messages a rank.
  Status barrier();

 private:
  Wire(transport::Transport& transport, const transport::Membership& membership,
       std::chrono::nanoseconds timeout);

  transport::Send& next_send(std::int32_t peer, std::span<const std::byte> payload);
  transport::Recv& next_recv(std::int32_t peer, std::size_t bytes);
  Status wait(const transport::Request& request, std::int32_t peer);
  /// All under way are done.
  void forget();

  transport::Transport& transport_;
  const transport::Membership& membership_;
  const std::chrono::nanoseconds timeout_;
  const std::size_t message_bytes_;
  HugeBuffer memory_;  // what is sent, then where it is received
  std::uint64_t word_ = 0;
  std::vector<std::uint32_t> sent_;      // messages to each peer so far
  std::vector<std::uint32_t> received_;  // from each peer
  // Under way, or spare.
  std::vector<std::unique_ptr<transport::Send>> sends_;
  std::vector<std::unique_ptr<transport::Recv>> recvs_;
  std::size_t sends_used_ = 0;
  std::size_t recvs_used_ = 0;
};

}  // namespace ferrule::probe
