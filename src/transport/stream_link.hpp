// Communication in the order of a device's stream: what a transport offers whose messages are moved by the
// device itself (NCCL). Nothing here waits for the device; what was enqueued runs when the stream gets there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/deadline.hpp"
#include "ferrule/status.hpp"

namespace ferrule::transport {

/// A send or a receive of device memory.
struct StreamMessage {
  std::int32_t peer = -1;
  void* data = nullptr;  ///< a send only reads it
  std::size_t bytes = 0;
};

/// Adjacent sends and receives; between two ranks they match in this order.
struct StreamBatch {
  std::span<const StreamMessage> sends;
  std::span<const StreamMessage> receives;
};

/// Threads: enqueue from one at a time, all ranks in the same order; health() and abort() from any.
class StreamLink {
 public:
  virtual ~StreamLink() = default;

  virtual std::string_view name() const = 0;
  virtual std::int32_t rank() const = 0;
  virtual std::int32_t size() const = 0;
  /// Enqueues all of the batch as one group, which ends when all of it has matched. The host may have to wait
  /// for connections to be made, until the deadline; for the device never.
  virtual Status exchange(const StreamBatch& batch, void* stream, Deadline deadline) = 0;
  /// Rank r's `bytes` come to all + r * bytes, on every rank. `mine` is read only.
  struct Gather {
    const void* mine = nullptr;
    void* all = nullptr;
    std::size_t bytes = 0;
  };
  virtual Status all_gather(const Gather& gather, void* stream, Deadline deadline) = 0;
  /// What has gone wrong since, on this rank or on a peer that this one is connected to.
  virtual Status health() = 0;
  /// Ends what is enqueued, finished or not, and everything later with `aborted`. What arrives is garbage.
  virtual void abort() = 0;
};

}  // namespace ferrule::transport
