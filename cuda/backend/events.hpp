// Events of one device, used again: making one costs more than recording it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <vector>

#include "executor/backend.hpp"
#include "ferrule/status.hpp"

namespace ferrule::cuda {

/// Thread safe. Lives as long as somebody has one of its events.
class EventPool : public std::enable_shared_from_this<EventPool> {
 public:
  explicit EventPool(int device) : device_(device) {}
  EventPool(const EventPool&) = delete;
  EventPool& operator=(const EventPool&) = delete;
  ~EventPool();

  int device() const { return device_; }
  /// Recorded on `stream`. Give it back with give().
  Result<cudaEvent_t> record(cudaStream_t stream);
  void give(cudaEvent_t event);

 private:
  Result<cudaEvent_t> take();

  const int device_;
  std::mutex mutex_;
  std::vector<cudaEvent_t> spare_;
};

/// Where a stream was.
class EventMark final : public executor::Mark {
 public:
  EventMark(std::shared_ptr<EventPool> pool, cudaEvent_t event) : pool_(std::move(pool)), event_(event) {}
  ~EventMark() override { pool_->give(event_); }
  EventMark(const EventMark&) = delete;
  EventMark& operator=(const EventMark&) = delete;

  Result<bool> passed() override;
  Status hold(void* stream) override;

 private:
  std::shared_ptr<EventPool> pool_;
  cudaEvent_t event_;
};

/// Marks where `stream` is now.
Result<std::shared_ptr<executor::Mark>> mark_stream(const std::shared_ptr<EventPool>& pool,
                                                    cudaStream_t stream);

/// Whether the event has been reached.
Result<bool> query(cudaEvent_t event);

}  // namespace ferrule::cuda
