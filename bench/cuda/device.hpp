// The few things that the benchmark asks of a device.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>
#include <string>

namespace ferrule::bench {

/// The name of device 0, or "" where there is none.
std::string device_name();

/// Ends the program with a text if `error` is one.
void must(cudaError_t error, const char* what);

/// Device memory; freed with it.
class DeviceMemory {
 public:
  explicit DeviceMemory(std::size_t bytes);
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }
  std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

/// Measures by events on a stream of its own.
class Timer {
 public:
  explicit Timer(std::size_t flush_bytes);
  ~Timer();
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  cudaStream_t stream() const { return stream_; }
  /// Median microseconds of one call, after memory has been written that is larger than the L2 cache.
  double cold_us(const std::function<void()>& call, int rounds);
  /// Median of the mean of `repeats` calls one after another: in the cache where they fit, launches hidden.
  double warm_us(const std::function<void()>& call, int rounds, int repeats);

 private:
  double timed_us(const std::function<void()>& call, int repeats);

  DeviceMemory flush_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t begin_ = nullptr;
  cudaEvent_t end_ = nullptr;
};

}  // namespace ferrule::bench
