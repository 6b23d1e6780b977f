// Captures and graphs.
#include <algorithm>
#include <utility>

#include "runtime.hpp"

using fake_cuda::Capture;
using fake_cuda::keep;
using fake_cuda::Node;
using fake_cuda::Operation;

namespace {

using Lock = std::unique_lock<std::mutex>;

// All that comes before `tail`, itself included. Operations follow earlier ones only.
std::vector<char> reached_from(const std::vector<Node>& nodes, const std::set<std::size_t>& tail) {
  std::vector<char> reached(nodes.size(), 0);
  for (const std::size_t node : tail) reached[node] = 1;
  for (std::size_t i = nodes.size(); i-- > 0;) {
    if (reached[i] == 0) continue;
    for (const std::size_t before : nodes[i].after) reached[before] = 1;
  }
  return reached;
}

// What is left of a capture when its streams have been taken out of it.
struct Ended {
  std::vector<Node> nodes;
  bool invalidated = false;
  bool joined = true;  ///< the origin waits for all that the other streams did
};

// One mutex at a time: a stream's comes before its capture's elsewhere.
std::set<std::size_t> leave(CUstream_st& stream) {
  const Lock lock(stream.mutex);
  stream.capture = nullptr;
  return std::exchange(stream.tail, {});
}

Ended end(Capture& capture, CUstream_st& origin) {
  std::set<cudaStream_t> streams;
  Ended ended;
  {
    const Lock lock(capture.mutex);
    streams.swap(capture.joined);
    ended.nodes = capture.nodes;
    ended.invalidated = capture.invalidated;
  }
  const std::vector<char> reached = reached_from(ended.nodes, leave(origin));
  for (cudaStream_t stream : streams) {
    if (stream == &origin || !fake_cuda::streams().has(stream)) continue;
    for (const std::size_t node : leave(*stream)) ended.joined = ended.joined && reached[node] != 0;
  }
  return ended;
}

// Any order that the dependencies allow, chosen by the seed: a dependency that was forgotten shows.
std::vector<std::size_t> choose_order(const std::vector<Node>& nodes, std::uint64_t seed) {
  std::vector<std::size_t> order;
  std::vector<char> done(nodes.size(), 0);
  while (order.size() < nodes.size()) {
    std::vector<std::size_t> ready;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const auto is_done = [&](std::size_t before) { return done[before] != 0; };
      if (done[i] == 0 && std::all_of(nodes[i].after.begin(), nodes[i].after.end(), is_done))
        ready.push_back(i);
      if (fake_cuda::shuffle_seed() == 0 && !ready.empty()) break;
    }
    const std::size_t next = ready[fake_cuda::next_random(seed) % ready.size()];
    done[next] = 1;
    order.push_back(next);
  }
  return order;
}

}  // namespace

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  FAKE_CUDA_ENTER();
  if (fake_cuda::is_legacy(handle)) return keep(cudaErrorStreamCaptureUnsupported);
  cudaStream_t stream = fake_cuda::resolve(handle);
  if (stream == nullptr) return keep(cudaErrorInvalidResourceHandle);
  auto capture = std::make_shared<Capture>();
  capture->mode = mode;
  capture->thread = fake_cuda::this_thread_number();
  capture->origin = stream;
  capture->joined.insert(stream);
  {
    const Lock lock(stream->mutex);
    if (stream->capture != nullptr) return keep(cudaErrorStreamCaptureUnsupported);
    stream->capture = capture;
    stream->tail.clear();
  }
  fake_cuda::note_capture(capture, true);
  return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  FAKE_CUDA_ENTER();
  *graph = nullptr;
  cudaStream_t stream = fake_cuda::resolve(handle);
  if (stream == nullptr) return keep(cudaErrorInvalidResourceHandle);
  std::shared_ptr<Capture> capture;
  {
    const Lock lock(stream->mutex);
    capture = stream->capture;
  }
  if (capture == nullptr || capture->origin != stream) return keep(cudaErrorStreamCaptureUnmatched);
  const bool own_thread = capture->thread == fake_cuda::this_thread_number();
  if (!own_thread && capture->mode != cudaStreamCaptureModeRelaxed)
    return keep(cudaErrorStreamCaptureWrongThread);
  fake_cuda::note_capture(capture, false);
  Ended ended = end(*capture, *stream);
  if (ended.invalidated) return keep(cudaErrorStreamCaptureInvalidated);
  if (!ended.joined) return keep(cudaErrorStreamCaptureUnjoined);
  *graph = fake_cuda::graphs().add(new CUgraph_st{std::move(ended.nodes)});
  return cudaSuccess;
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  FAKE_CUDA_ENTER();
  *status = cudaStreamCaptureStatusNone;
  if (fake_cuda::is_legacy(handle)) return cudaSuccess;
  cudaStream_t stream = fake_cuda::resolve(handle);
  if (stream == nullptr) return keep(cudaErrorInvalidResourceHandle);
  const Lock lock(stream->mutex);
  if (stream->capture == nullptr) return cudaSuccess;
  const Lock inner(stream->capture->mutex);
  *status = stream->capture->invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  FAKE_CUDA_ENTER();
  std::swap(*mode, fake_cuda::thread_capture_mode());
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* exec, cudaGraph_t graph,
                                          unsigned long long flags) {
  FAKE_CUDA_ENTER();
  if (!fake_cuda::graphs().has(graph) || flags != 0) return keep(cudaErrorInvalidValue);
  auto* made = new CUgraphExec_st;
  made->nodes = graph->nodes;
  *exec = fake_cuda::execs().add(made);
  return cudaSuccess;
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  FAKE_CUDA_ENTER();
  if (!fake_cuda::graphs().has(graph) || nodes != nullptr) return keep(cudaErrorInvalidValue);  // counts only
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t handle) {
  FAKE_CUDA_ENTER();
  cudaStream_t stream = fake_cuda::resolve(handle);
  if (stream == nullptr || !fake_cuda::execs().has(exec)) return keep(cudaErrorInvalidResourceHandle);
  if (fake_cuda::is_capturing(*stream))
    return keep(cudaErrorStreamCaptureUnsupported);  // no child graphs here
  const Lock lock(exec->mutex);
  fake_cuda::count_graph_launch();
  if (exec->last != nullptr) stream->stream->wait_for(exec->last);
  const std::uint64_t seed = fake_cuda::shuffle_seed() + exec->launches++;
  for (const std::size_t node : choose_order(exec->nodes, seed)) {
    fake_cuda::push(*stream, exec->nodes[node].operation);
  }
  exec->last = stream->stream->mark();
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  FAKE_CUDA_ENTER();
  if (!fake_cuda::execs().remove(exec)) return keep(cudaErrorInvalidResourceHandle);
  delete exec;
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  FAKE_CUDA_ENTER();
  if (!fake_cuda::graphs().remove(graph)) return keep(cudaErrorInvalidResourceHandle);
  delete graph;
  return cudaSuccess;
}
}
