// What the functions of the fake runtime share: handles, captures, the guard that each begins with.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <vector>

#include "control.hpp"
#include "stream.hpp"

namespace fake_cuda {

/// An operation of a graph, and the numbers of those that it follows.
struct Node {
  Operation operation;
  std::set<std::size_t> after;
};

/// A capture under way. Under its mutex; only host threads come here.
struct Capture {
  std::mutex mutex;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::uint64_t thread = 0;  ///< that began it
  cudaStream_t origin = nullptr;
  bool invalidated = false;
  std::vector<Node> nodes;
  std::set<cudaStream_t> joined;  ///< origin included
};

}  // namespace fake_cuda

// What the opaque handles point at. One mutex each: host threads that share a stream are ordered anyway.
struct CUstream_st {
  std::mutex mutex;
  std::shared_ptr<fake_cuda::Stream> stream;
  std::shared_ptr<fake_cuda::Capture> capture;
  std::set<std::size_t> tail;  ///< capturing: what the next operation follows
};

struct CUevent_st {
  std::mutex mutex;
  bool timed = true;
  std::shared_ptr<fake_cuda::Completion> completion;  ///< of the last record; null: never recorded
  std::shared_ptr<fake_cuda::Capture> capture;        ///< recorded in it, after `tail`
  std::set<std::size_t> tail;
};

struct CUgraph_st {
  std::vector<fake_cuda::Node> nodes;
};

struct CUgraphExec_st {
  std::mutex mutex;
  std::vector<fake_cuda::Node> nodes;
  std::shared_ptr<fake_cuda::Completion> last;  ///< launches of one graph do not overlap
  std::uint64_t launches = 0;
};

namespace fake_cuda {

/// The live handles of one kind. Look-ups do not order threads.
template <class Handle>
class Handles {
 public:
  Handle* add(Handle* handle) {
    const std::unique_lock lock(mutex_);
    live_.insert(handle);
    return handle;
  }
  bool remove(Handle* handle) {
    const std::unique_lock lock(mutex_);
    return live_.erase(handle) != 0;
  }
  bool has(Handle* handle) const {
    const std::shared_lock lock(mutex_);
    return live_.count(handle) != 0;
  }
  std::set<Handle*> all() const {
    const std::shared_lock lock(mutex_);
    return live_;
  }
  /// Calls it for each; none of them is destroyed meanwhile.
  template <class Function>
  void visit(const Function& function) const {
    const std::shared_lock lock(mutex_);
    for (Handle* handle : live_) function(*handle);
  }

 private:
  mutable std::shared_mutex mutex_;
  std::set<Handle*> live_;
};

Handles<CUstream_st>& streams();
Handles<CUevent_st>& events();
Handles<CUgraph_st>& graphs();
Handles<CUgraphExec_st>& execs();

/// Begins every function: what it must return without doing anything, or success.
cudaError_t enter(const char* function);
/// Keeps an error for cudaGetLastError.
cudaError_t keep(cudaError_t error);
cudaError_t take_last_error(bool clear);
/// For functions that may not be called while this or any thread captures (a capture that forbids it is
/// invalidated).
cudaError_t refuse_while_capturing();
cudaStreamCaptureMode& thread_capture_mode();
/// Begins or ends a capture's part in refuse_while_capturing().
void note_capture(const std::shared_ptr<Capture>& capture, bool begins);
std::uint64_t this_thread_number();

const Machine& machine();
int& current_device();
void count_executed(Operation::Kind kind);
void count_host_sync();
void count_allocation();
void count_graph_launch();
[[noreturn]] void die_of_a_hang(const char* caller);

/// The stream that a handle means (0, 1 and 2 are the default ones), or null.
cudaStream_t resolve(cudaStream_t handle);
bool is_legacy(cudaStream_t handle);
cudaStream_t make_stream(bool blocking);
/// Queues, or adds to the capture that the stream takes part in.
cudaError_t submit(cudaStream_t handle, Operation operation);
/// Queues without looking at captures; keeps the order with the legacy default stream.
void push(CUstream_st& stream, Operation operation);
bool is_capturing(CUstream_st& stream);
/// Those that a program may still use. They live as long as somebody holds them.
std::vector<std::shared_ptr<Stream>> live_streams();
/// Ends `stream`'s thread after its queue.
void retire(std::shared_ptr<Stream> stream);
/// Waits until nothing is queued on the current device any more.
void drain_all(const char* caller);

}  // namespace fake_cuda

/// First line of a function of the runtime.
#define FAKE_CUDA_ENTER()                                                               \
  if (const cudaError_t refused = fake_cuda::enter(__func__); refused != cudaSuccess) { \
    return fake_cuda::keep(refused);                                                    \
  }                                                                                     \
  static_assert(true)
