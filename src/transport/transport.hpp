// The transport interface: moves messages between the ranks of one communicator, knows nothing of their
// content.
//
// Threads: one owner at a time calls post, progress, cancel, retire and destroys; wake() may be called by any
// thread. Sends and receives are requests owned by the caller; they must stay in place until done or
// cancelled.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/deadline.hpp"
#include "base/memory_space.hpp"
#include "ferrule/status.hpp"
#include "transport/message.hpp"

namespace ferrule::transport {

/// A received payload: a view of memory that the transport owns (UCX's fragment, the sender's slot in
/// loopback), given back by release() or destruction. Release on the owner's thread only.
class Received {
 public:
  using Release = void (*)(void* owner, void* handle);

  Received() = default;
  Received(MessageHeader header, std::span<const std::byte> payload, Release give_back, void* owner,
           void* handle)
      : header_(header), payload_(payload), release_(give_back), owner_(owner), handle_(handle) {}
  Received(Received&& other) noexcept { swap(other); }
  Received& operator=(Received&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Received() { release(); }

  const MessageHeader& header() const { return header_; }
  std::span<const std::byte> payload() const { return payload_; }
  /// Whose memory the payload is in; null: the host's. Only of a transport with Caps::device_memory.
  const MemorySpace* space() const { return space_; }
  void set_space(const MemorySpace* space) { space_ = space; }
  /// When the transport saw it: lets a decorator add latency from arrival, not from the time of the receive.
  Deadline::Clock::time_point arrived() const { return arrived_; }
  void stamp(Deadline::Clock::time_point when) { arrived_ = when; }
  /// What the transport calls this message; only it knows the meaning.
  void* handle() const { return handle_; }
  void release() {
    if (release_ != nullptr) std::exchange(release_, nullptr)(owner_, handle_);
    payload_ = {};
  }

 private:
  void swap(Received& other) {
    std::swap(header_, other.header_);
    std::swap(payload_, other.payload_);
    std::swap(release_, other.release_);
    std::swap(owner_, other.owner_);
    std::swap(handle_, other.handle_);
    std::swap(arrived_, other.arrived_);
    std::swap(space_, other.space_);
  }

  MessageHeader header_;
  std::span<const std::byte> payload_;
  Release release_ = nullptr;
  void* owner_ = nullptr;
  void* handle_ = nullptr;
  Deadline::Clock::time_point arrived_{};
  const MemorySpace* space_ = nullptr;
};

/// Common part of a send and a receive. `done` is written by the transport, on the owner's thread, inside
/// post(), progress() or cancel(); then `status` says how it ended.
struct Request {
  bool done = false;
  Status status;
  void* transport_data = nullptr;  ///< for the transport that the request is posted to
  void* decorator_data = nullptr;  ///< for a decorator in front of it
};

/// header.source and header.payload_bytes are filled in by the caller; the payload must stay readable until
/// done. done means that the payload may be reused, not that the peer has it.
struct Send : Request {
  std::int32_t peer = -1;
  MessageHeader header;
  std::span<const std::byte> payload;
  /// Whose memory the payload is in; null: the host's. Others only where Caps::device_memory, and when what
  /// wrote it is done.
  const MemorySpace* space = nullptr;
};

/// Matches the message with (peer, sequence, slice, ordinal) of kind data. Its length must equal `bytes`:
/// another length ends the receive with `mismatch`, a plan other than `plan` too; nothing is ever written to
/// memory of ours.
struct Recv : Request {
  std::int32_t peer = -1;
  std::uint32_t sequence = 0;
  std::uint32_t slice = 0;
  std::uint32_t ordinal = 0;
  std::uint64_t plan = 0;
  std::size_t bytes = 0;
  Received message;
};

/// Adjacent sends and receives of a schedule. A transport for which grouping matters (NCCL) starts them
/// together.
struct Batch {
  std::span<Send* const> sends;
  std::span<Recv* const> recvs;
};

struct Caps {
  std::size_t best_message_bytes =
      64512;  ///< payload for which the transport is fastest; slices are cut to it
  std::size_t max_message_bytes = std::size_t{1} << 31;
  std::uint32_t messages_in_flight = 4;  ///< per peer; slices in flight are chosen from it
  // The same on a slow link, which small messages fill and drain sooner, and whose queue many overflow. 0: as
  // above.
  std::size_t slow_message_bytes = 0;
  std::uint32_t slow_messages_in_flight = 0;
  /// Payloads may be in a device's memory: a receive completes with a view of it. The receiver gives it back
  /// when the device has read it.
  bool device_memory = false;
};

/// What this rank has put on the wire and taken from it, headers included.
struct Counters {
  std::uint64_t messages_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t messages_received = 0;
  std::uint64_t bytes_received = 0;

  friend Counters operator-(const Counters& a, const Counters& b) {
    return {a.messages_sent - b.messages_sent, a.bytes_sent - b.bytes_sent,
            a.messages_received - b.messages_received, a.bytes_received - b.bytes_received};
  }
};

/// Called on the owner's thread, inside progress(), for each control message. May post.
using ControlHandler = std::function<void(const MessageHeader& header, std::span<const std::byte> payload)>;

class Transport {
 public:
  virtual ~Transport() = default;

  virtual std::string_view name() const = 0;
  virtual std::int32_t rank() const = 0;
  virtual std::int32_t size() const = 0;
  virtual Caps caps() const = 0;
  virtual Counters counters() const = 0;

  /// Starts all of the batch. An error means that none of it was started. Requests may be done on return.
  virtual Status post(const Batch& batch) = 0;
  /// Drives communication. Returns as soon as at least one request has become done, a control message was
  /// handled or wake() was called; at the deadline at the latest (which is no error). First polls, then
  /// sleeps. An error is fatal for the communicator (a peer is lost, the fabric failed): it names the rank
  /// where it can.
  virtual Status progress(Deadline deadline) = 0;
  /// Makes a progress() that is sleeping, or the next one, return. Any thread.
  virtual void wake() = 0;
  /// Takes back a receive that is not done: it ends done with code aborted.
  virtual void cancel(Recv& recv) = 0;
  /// Takes back a send that is not done, by force if need be (the connection to its peer is then lost).
  virtual void cancel(Send& send) = 0;
  /// Drops queued messages of collectives up to and including `sequence`, and those that still arrive.
  virtual void retire(std::uint32_t sequence) = 0;

  virtual void set_control_handler(ControlHandler handler) = 0;
};

}  // namespace ferrule::transport
