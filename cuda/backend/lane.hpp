// A stream of ours, and how far it has come.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <memory>

#include "cuda/backend/events.hpp"
#include "ferrule/status.hpp"

namespace ferrule::cuda {

/// Points are numbered from 1 in the order of the stream. Used by one thread at a time, on its device.
class Lane {
 public:
  explicit Lane(std::shared_ptr<EventPool> pool) : pool_(std::move(pool)) {}
  Lane(const Lane&) = delete;
  Lane& operator=(const Lane&) = delete;
  ~Lane();

  /// Never ordered with CUDA's default stream by itself.
  Status open();
  cudaStream_t stream() const { return stream_; }
  /// Marks the end of what was submitted so far.
  Result<std::uint64_t> mark();
  std::uint64_t last() const { return last_; }
  Result<bool> passed(std::uint64_t number);
  /// What comes into this stream from now on waits for a point of the other one.
  Status follow(Lane& other, std::uint64_t number);
  /// Nothing is under way; true as well where the device has failed, since nothing runs there any more.
  bool idle() const;
  /// The stream is not destroyed: its work may never end.
  void abandon() { stream_ = nullptr; }

 private:
  struct Point {
    std::uint64_t number;
    cudaEvent_t event;
  };

  std::shared_ptr<EventPool> pool_;
  cudaStream_t stream_ = nullptr;
  std::deque<Point> open_;  // not known to have passed, in order
  std::uint64_t last_ = 0;
};

}  // namespace ferrule::cuda
