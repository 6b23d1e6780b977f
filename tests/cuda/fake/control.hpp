// The fake CUDA runtime, seen from a test.
//
// Streams are threads: work on two streams is ordered by events, or it is not ordered, and ThreadSanitizer
// sees it (nothing in the path of an operation takes a lock that streams share). Without a sanitizer, seeded
// pauses shuffle them. Device memory is poisoned when it is allocated and when it is freed, ends in an
// unreadable tail, and is mapped without access while no operation runs: a host that touches it crashes. (Not
// under ThreadSanitizer, and not while another stream is at work: that catches what is wrong always, not what
// is wrong sometimes.)
//
// Host waits last a minute at most: then the fake says what every stream is doing, and aborts.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <functional>
#include <string>

namespace fake_cuda {

/// How many times the host did what costs it time; see `host_syncs`.
struct Counters {
  /// Waits for the device: synchronisations, blocking copies, copies between device and pageable memory, and
  /// cudaFree.
  std::uint64_t host_syncs = 0;
  std::uint64_t kernels = 0;  ///< executed, those of graphs included
  std::uint64_t copies = 0;
  std::uint64_t allocations = 0;  ///< device and pinned, not stream-ordered ones
  std::uint64_t host_functions = 0;
  std::uint64_t external = 0;  ///< operations of other libraries: enqueue_external()
  std::uint64_t graph_launches = 0;

  friend Counters operator-(const Counters& a, const Counters& b);
};

Counters counters();

/// What the machine has. Before anything else is called, or after reset().
struct Machine {
  int devices = 1;
  cudaError_t status = cudaSuccess;  ///< what every call returns where it is no success (no driver)
  int memory_pools = 1;
};

/// Ends all streams (their queued work is done first) and forgets everything: allocations, errors, counters.
/// Returns what was left behind, one line each: live streams, events, graphs and memory; empty if nothing.
std::string reset(const Machine& machine = {});

/// Pauses before operations, a function of the seed; 0: none.
void shuffle(std::uint64_t seed);

/// The named function fails with `error` on its nth call from now on (1: the next one), once.
void fail_call(const std::string& function, cudaError_t error, unsigned nth = 1);
/// As a kernel that reads a wild pointer does: from now on every call fails, and nothing more runs.
void break_device(cudaError_t error);

/// What is queued on the stream waits, as if an earlier kernel took its time.
void hold(cudaStream_t stream);
void release(cudaStream_t stream);

/// A kernel: runs in stream order, and may touch device memory. The hook of the kernels' emulator. An error
/// of the launch is kept for cudaGetLastError too.
cudaError_t enqueue_kernel(cudaStream_t stream, std::string name, std::function<void()> body);
/// An operation of another library, e.g. a collective: it may wait for other threads, and opens device memory
/// itself, with DeviceAccess. While it waits it must look at `is_broken()`.
cudaError_t enqueue_external(cudaStream_t stream, std::string name, std::function<void()> body);
bool is_broken();

/// While one lives, device memory can be read and written. For fakes of other libraries.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Whether [pointer, +bytes) lies in one device allocation that is not freed.
bool is_device_memory(const void* pointer, std::size_t bytes);
/// Host accesses to device memory crash in this build.
bool protects_memory();

}  // namespace fake_cuda
