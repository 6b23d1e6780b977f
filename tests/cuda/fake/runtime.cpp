#include "runtime.hpp"

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>

#include "memory.hpp"

namespace fake_cuda {
namespace {

struct State {
  std::atomic<std::uint64_t> host_syncs{0}, kernels{0}, copies{0}, allocations{0}, host_functions{0},
      external{0}, graph_launches{0};
  std::atomic<int> broken{cudaSuccess};
  std::atomic<bool> armed{false};  ///< some call shall fail
  std::mutex mutex;                ///< of what follows
  std::map<std::string, std::pair<unsigned, cudaError_t>> failures;
  std::vector<std::shared_ptr<Stream>> retired;
  std::map<int, cudaStream_t> legacy;
  int next_stream = 1;
  Machine machine;
  mutable std::shared_mutex capture_mutex;  ///< readers do not order each other
  std::vector<std::shared_ptr<Capture>> captures;
  std::shared_mutex legacy_mutex;
};

State& state() {
  static auto* state = new State;
  return *state;
}

thread_local cudaError_t t_last_error = cudaSuccess;
thread_local int t_device = 0;
thread_local cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;
thread_local cudaStream_t t_own_stream = nullptr;

cudaError_t planted_failure(const char* function) {
  if (!state().armed.load(std::memory_order_relaxed)) return cudaSuccess;
  const std::lock_guard lock(state().mutex);
  auto found = state().failures.find(function);
  if (found == state().failures.end() || --found->second.first != 0) return cudaSuccess;
  const cudaError_t error = found->second.second;
  state().failures.erase(found);
  state().armed = !state().failures.empty();
  return error;
}

cudaStream_t legacy_stream_if_any() {
  const std::shared_lock lock(state().legacy_mutex);
  const auto found = state().legacy.find(t_device);
  return found == state().legacy.end() ? nullptr : found->second;
}

cudaStream_t legacy_stream() {
  if (cudaStream_t stream = legacy_stream_if_any()) return stream;
  const std::unique_lock lock(state().legacy_mutex);
  cudaStream_t& stream = state().legacy[t_device];
  if (stream == nullptr) stream = make_stream(true);
  return stream;
}

// The legacy stream waits for all blocking ones, and they for it.
void order_with_legacy(CUstream_st& stream) {
  cudaStream_t legacy = legacy_stream_if_any();
  if (!stream.stream->blocking() || legacy == nullptr) return;
  if (legacy != &stream) {
    if (!legacy->stream->idle()) stream.stream->wait_for(legacy->stream->mark());
    return;
  }
  for (const std::shared_ptr<Stream>& other : live_streams()) {
    const bool concerned = other != legacy->stream && other->blocking() && !other->idle() &&
                           other->device() == stream.stream->device();
    if (concerned) stream.stream->wait_for(other->mark());
  }
}

bool forbids(const Capture& capture) {
  if (t_mode == cudaStreamCaptureModeRelaxed || capture.mode == cudaStreamCaptureModeRelaxed) return false;
  if (capture.thread == this_thread_number()) return true;
  return t_mode == cudaStreamCaptureModeGlobal && capture.mode == cudaStreamCaptureModeGlobal;
}

cudaError_t invalidate_captures(cudaError_t error) {
  bool refused = false;
  const std::shared_lock lock(state().capture_mutex);
  for (const auto& capture : state().captures) {
    if (!forbids(*capture)) continue;
    const std::lock_guard inner(capture->mutex);
    capture->invalidated = refused = true;
  }
  return refused ? error : cudaSuccess;
}

cudaError_t capture_operation(CUstream_st& stream, Operation operation) {
  Capture& capture = *stream.capture;
  const std::lock_guard lock(capture.mutex);
  if (capture.invalidated) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({std::move(operation), stream.tail});
  stream.tail = {capture.nodes.size() - 1};
  return cudaSuccess;
}

template <class Handle>
std::string forget(Handles<Handle>& handles, const char* what) {
  const auto left = handles.all();
  for (Handle* handle : left) {
    handles.remove(handle);
    delete handle;
  }
  return left.empty() ? "" : std::to_string(left.size()) + " " + what + "\n";
}

}  // namespace

Handles<CUstream_st>& streams() {
  static auto* handles = new Handles<CUstream_st>;
  return *handles;
}
Handles<CUevent_st>& events() {
  static auto* handles = new Handles<CUevent_st>;
  return *handles;
}
Handles<CUgraph_st>& graphs() {
  static auto* handles = new Handles<CUgraph_st>;
  return *handles;
}
Handles<CUgraphExec_st>& execs() {
  static auto* handles = new Handles<CUgraphExec_st>;
  return *handles;
}

// ---- errors

cudaError_t enter(const char* function) {
  if (machine().status != cudaSuccess) return machine().status;
  if (in_host_function()) return cudaErrorNotPermitted;
  if (is_broken()) return static_cast<cudaError_t>(state().broken.load());
  return planted_failure(function);
}

cudaError_t keep(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) t_last_error = error;
  return error;
}

cudaError_t take_last_error(bool clear) {
  if (is_broken()) return static_cast<cudaError_t>(state().broken.load());
  const cudaError_t error = t_last_error;
  if (clear) t_last_error = cudaSuccess;
  return error;
}

void fail_call(const std::string& function, cudaError_t error, unsigned nth) {
  const std::lock_guard lock(state().mutex);
  state().failures[function] = {nth, error};
  state().armed = true;
}

void break_device(cudaError_t error) {
  state().broken = error;
  giving_up() = true;
}

bool is_broken() { return state().broken.load(std::memory_order_relaxed) != cudaSuccess; }

// ---- captures

cudaError_t refuse_while_capturing() { return invalidate_captures(cudaErrorStreamCaptureUnsupported); }

cudaStreamCaptureMode& thread_capture_mode() { return t_mode; }

void note_capture(const std::shared_ptr<Capture>& capture, bool begins) {
  const std::unique_lock lock(state().capture_mutex);
  if (begins) {
    state().captures.push_back(capture);
  } else {
    std::erase(state().captures, capture);
  }
}

std::uint64_t this_thread_number() {
  static std::atomic<std::uint64_t> next{1};
  thread_local const std::uint64_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

// ---- machine and counters

const Machine& machine() { return state().machine; }
int& current_device() { return t_device; }

void count_executed(Operation::Kind kind) {
  State& s = state();
  switch (kind) {
    case Operation::Kind::kernel:
      s.kernels.fetch_add(1, std::memory_order_relaxed);
      break;
    case Operation::Kind::copy:
      s.copies.fetch_add(1, std::memory_order_relaxed);
      break;
    case Operation::Kind::host_function:
      s.host_functions.fetch_add(1, std::memory_order_relaxed);
      break;
    case Operation::Kind::external:
      s.external.fetch_add(1, std::memory_order_relaxed);
      break;
    default:
      break;
  }
}
void count_host_sync() { state().host_syncs.fetch_add(1, std::memory_order_relaxed); }
void count_allocation() { state().allocations.fetch_add(1, std::memory_order_relaxed); }
void count_graph_launch() { state().graph_launches.fetch_add(1, std::memory_order_relaxed); }

Counters counters() {
  const State& s = state();
  return {s.host_syncs, s.kernels, s.copies, s.allocations, s.host_functions, s.external, s.graph_launches};
}

Counters operator-(const Counters& a, const Counters& b) {
  return {a.host_syncs - b.host_syncs,
          a.kernels - b.kernels,
          a.copies - b.copies,
          a.allocations - b.allocations,
          a.host_functions - b.host_functions,
          a.external - b.external,
          a.graph_launches - b.graph_launches};
}

void shuffle(std::uint64_t seed) { set_shuffle_seed(seed); }

// ---- streams

cudaStream_t make_stream(bool blocking) {
  int number = 0;
  {
    const std::lock_guard lock(state().mutex);
    number = state().next_stream++;
  }
  auto* handle = new CUstream_st;
  handle->stream = std::make_shared<Stream>(number, t_device, blocking);
  return streams().add(handle);
}

bool is_legacy(cudaStream_t handle) { return handle == nullptr || handle == cudaStreamLegacy; }

cudaStream_t resolve(cudaStream_t handle) {
  if (is_legacy(handle)) return legacy_stream();
  if (handle == cudaStreamPerThread) {
    if (t_own_stream == nullptr || !streams().has(t_own_stream)) t_own_stream = make_stream(true);
    return t_own_stream;
  }
  return streams().has(handle) ? handle : nullptr;
}

void push(CUstream_st& stream, Operation operation) {
  order_with_legacy(stream);
  stream.stream->push(std::move(operation));
}

bool is_capturing(CUstream_st& stream) {
  const std::lock_guard lock(stream.mutex);
  return stream.capture != nullptr;
}

cudaError_t submit(cudaStream_t handle, Operation operation) {
  cudaStream_t stream = resolve(handle);
  if (stream == nullptr) return cudaErrorInvalidResourceHandle;
  if (is_legacy(handle)) {
    const cudaError_t refused = invalidate_captures(cudaErrorStreamCaptureImplicit);
    if (refused != cudaSuccess) return refused;
  }
  const std::lock_guard lock(stream->mutex);
  if (stream->capture != nullptr) return capture_operation(*stream, std::move(operation));
  push(*stream, std::move(operation));
  return cudaSuccess;
}

void retire(std::shared_ptr<Stream> stream) {
  stream->close();
  const std::lock_guard lock(state().mutex);
  std::erase_if(state().retired, [](const auto& old) { return old->idle(); });  // joins, at once
  state().retired.push_back(std::move(stream));
}

std::vector<std::shared_ptr<Stream>> live_streams() {
  std::vector<std::shared_ptr<Stream>> live;
  streams().visit([&](const CUstream_st& stream) { live.push_back(stream.stream); });
  return live;
}

void drain_all(const char* caller) {
  for (const std::shared_ptr<Stream>& stream : live_streams()) {
    if (stream->device() == t_device) stream->mark()->wait_on_host(caller);
  }
  std::vector<std::shared_ptr<Stream>> gone;
  {
    const std::lock_guard lock(state().mutex);
    std::swap(gone, state().retired);
  }
  std::erase_if(gone, [](const auto& stream) { return stream->device() == t_device; });  // joins them
  const std::lock_guard lock(state().mutex);
  state().retired.insert(state().retired.end(), gone.begin(), gone.end());
}

void hold(cudaStream_t stream) { resolve(stream)->stream->set_held(true); }
void release(cudaStream_t stream) { resolve(stream)->stream->set_held(false); }

void die_of_a_hang(const char* caller) {
  std::fprintf(stderr, "fake CUDA: %s has waited for a minute\n", caller);
  for (const std::shared_ptr<Stream>& stream : live_streams()) {
    std::fprintf(stderr, "  %s\n", stream->describe().c_str());
  }
  std::abort();
}

cudaError_t enqueue_kernel(cudaStream_t stream, std::string name, std::function<void()> body) {
  if (const cudaError_t refused = enter("cudaLaunchKernel"); refused != cudaSuccess) return keep(refused);
  return keep(submit(stream, {Operation::Kind::kernel, std::move(name), std::move(body), nullptr}));
}

cudaError_t enqueue_external(cudaStream_t stream, std::string name, std::function<void()> body) {
  if (const cudaError_t refused = enter("enqueue_external"); refused != cudaSuccess) return keep(refused);
  return keep(submit(stream, {Operation::Kind::external, std::move(name), std::move(body), nullptr}));
}

// ---- the end

std::string reset(const Machine& machine) {
  State& s = state();
  for (const std::shared_ptr<Stream>& stream : live_streams()) stream->set_held(false);
  if (!is_broken()) {
    for (const std::shared_ptr<Stream>& stream : live_streams()) stream->mark()->wait_on_host("reset");
  }
  std::string left;
  {
    const std::unique_lock lock(s.legacy_mutex);
    for (const auto& [device, stream] : s.legacy) {
      streams().remove(stream);
      delete stream;
    }
    s.legacy.clear();
  }
  if (t_own_stream != nullptr && streams().remove(t_own_stream)) delete t_own_stream;
  t_own_stream = nullptr;
  left += forget(execs(), "executable graphs") + forget(graphs(), "graphs") + forget(events(), "events") +
          forget(streams(), "streams");
  {
    const std::lock_guard lock(s.mutex);
    s.retired.clear();
    s.failures.clear();
    s.armed = false;
    s.machine = machine;
  }
  {
    const std::unique_lock lock(s.capture_mutex);
    s.captures.clear();
  }
  giving_up() = false;
  s.broken = cudaSuccess;
  left += forget_memory();
  for (auto* counter : {&s.host_syncs, &s.kernels, &s.copies, &s.allocations, &s.host_functions, &s.external,
                        &s.graph_launches}) {
    *counter = 0;
  }
  t_last_error = cudaSuccess;
  t_device = 0;
  t_mode = cudaStreamCaptureModeGlobal;
  set_shuffle_seed(0);
  return left;
}

}  // namespace fake_cuda
