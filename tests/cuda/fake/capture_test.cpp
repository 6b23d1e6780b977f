// Capture rules of the fake: they are those of the CUDA Programming Guide, error codes included.
#include <thread>

#include "support.hpp"

namespace fake_cuda {
namespace {

class Captures : public FakeCuda {
 protected:
  void SetUp() override {
    FakeCuda::SetUp();
    stream_ = stream();
  }
  void TearDown() override {
    cudaStreamDestroy(stream_);
    FakeCuda::TearDown();
  }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  cudaError_t end() {
    cudaGraph_t graph = nullptr;
    const cudaError_t error = cudaStreamEndCapture(stream_, &graph);
    if (graph != nullptr) cudaGraphDestroy(graph);
    return error;
  }
  cudaGraphExec_t instantiate() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaGraphInstantiateWithFlags(&exec, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
    return exec;
  }

  cudaStream_t stream_ = nullptr;
};

TEST_F(Captures, RunNothingAndReplayAsOftenAsAsked) {
  int* value = device_ints(2);
  ASSERT_EQ(cudaMemsetAsync(value, 0, 8, stream_), cudaSuccess);
  begin();
  ASSERT_EQ(enqueue_kernel(stream_, "add", [=] { value[1] += value[0]; }), cudaSuccess);
  cudaGraphExec_t exec = instantiate();
  EXPECT_EQ(counters().kernels, 0u);
  int sum = 0;
  for (int i = 0; i < 100; ++i) {
    set(stream_, value, i);
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    sum += i;
  }
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(read(value + 1), sum);
  EXPECT_EQ(counters().graph_launches, 100u);
  cudaGraphExecDestroy(exec);
  cudaFree(value);
}

TEST_F(Captures, ForksMustComeBack) {
  cudaStream_t side = stream();
  cudaEvent_t fork = event();
  cudaEvent_t join = event();
  int* value = device_ints(2);
  const auto run = [&](bool joins) {
    begin();
    set(stream_, value, 3);
    EXPECT_EQ(cudaEventRecord(fork, stream_), cudaSuccess);
    EXPECT_EQ(cudaStreamWaitEvent(side, fork, 0), cudaSuccess);
    copy(side, value, value + 1);
    EXPECT_EQ(cudaEventRecord(join, side), cudaSuccess);
    if (joins) {
      EXPECT_EQ(cudaStreamWaitEvent(stream_, join, 0), cudaSuccess);
    }
  };
  run(false);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
  run(true);
  cudaGraphExec_t exec = instantiate();
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(read(value + 1), 3);
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusActive;
  EXPECT_EQ(cudaStreamIsCapturing(side, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusNone);
  cudaGraphExecDestroy(exec);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
  cudaStreamDestroy(side);
  cudaFree(value);
}

TEST_F(Captures, WhatTheHostMayNotDoMeanwhile) {
  cudaEvent_t any = event();
  void* memory = nullptr;
  int* device = device_ints(1);
  const std::vector<std::pair<const char*, std::function<cudaError_t()>>> forbidden = {
      {"synchronise", [&] { return cudaStreamSynchronize(stream_); }},
      {"query", [&] { return cudaStreamQuery(stream_); }},
      {"event query", [&] { return cudaEventQuery(any); }},
      {"malloc", [&] { return cudaMalloc(&memory, 16); }},
      {"free", [&] { return cudaFree(device); }},
      {"pinned", [&] { return cudaMallocHost(&memory, 16); }},
      {"device", [&] { return cudaDeviceSynchronize(); }},
      {"copy", [&] { return cudaMemset(device, 0, 4); }},
  };
  for (const auto& [name, call] : forbidden) {
    begin();
    EXPECT_EQ(call(), cudaErrorStreamCaptureUnsupported) << name;
    EXPECT_EQ(enqueue_kernel(stream_, "late", [] {}), cudaErrorStreamCaptureInvalidated) << name;
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated) << name;
  }
  begin(cudaStreamCaptureModeRelaxed);
  EXPECT_EQ(cudaMalloc(&memory, 16), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  cudaFree(memory);
  cudaFree(device);
  cudaEventDestroy(any);
}

TEST_F(Captures, AnotherThreadIsConcernedByGlobalOnesOnly) {
  cudaEvent_t any = event();
  const auto elsewhere = [&](cudaStreamCaptureMode of_thread) {
    cudaError_t error = cudaSuccess;
    std::thread([&] {
      cudaStreamCaptureMode mode = of_thread;
      cudaThreadExchangeStreamCaptureMode(&mode);
      error = cudaEventQuery(any);
    }).join();
    return error;
  };
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(elsewhere(cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(elsewhere(cudaStreamCaptureModeRelaxed), cudaSuccess);
  EXPECT_EQ(elsewhere(cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  cudaEventDestroy(any);
}

TEST_F(Captures, EventsOfInsideAndOutsideDoNotMix) {
  cudaEvent_t inside = event();
  cudaEvent_t outside = event();
  cudaStream_t other = stream();
  ASSERT_EQ(cudaEventRecord(outside, other), cudaSuccess);
  begin();
  EXPECT_EQ(cudaStreamWaitEvent(stream_, outside, 0), cudaErrorStreamCaptureIsolation);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeRelaxed);
  ASSERT_EQ(cudaEventRecord(inside, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(inside), cudaErrorCapturedEvent);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  cudaEventDestroy(inside);
  cudaEventDestroy(outside);
  cudaStreamDestroy(other);
}

TEST_F(Captures, TheDefaultStreamIsOutOfBounds) {
  EXPECT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  begin();
  EXPECT_EQ(enqueue_kernel(nullptr, "default", [] {}), cudaErrorStreamCaptureImplicit);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnmatched);
}

TEST_F(Captures, OnlyTheThreadThatBeganMayEnd) {
  begin();
  cudaError_t error = cudaSuccess;
  std::thread([&] { error = end(); }).join();
  EXPECT_EQ(error, cudaErrorStreamCaptureWrongThread);
  EXPECT_EQ(end(), cudaSuccess);
}

// Two branches without an order between them: some seed shows it.
TEST_F(Captures, AForgottenDependencyIsSeenUnderSomeSeed) {
  cudaStream_t side = stream();
  cudaEvent_t fork = event();
  cudaEvent_t join = event();
  int* value = device_ints(2);
  begin();
  ASSERT_EQ(cudaEventRecord(fork, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(side, fork, 0), cudaSuccess);
  set(stream_, value, 3);
  copy(side, value, value + 1);  // should have waited for the line before
  ASSERT_EQ(cudaEventRecord(join, side), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(stream_, join, 0), cudaSuccess);
  cudaGraphExec_t exec = instantiate();
  int wrong = 0;
  for (unsigned seed = 1; seed <= 20; ++seed) {
    shuffle(seed);
    set(stream_, value, 0);
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    wrong += read(value + 1) != 3 ? 1 : 0;
  }
  EXPECT_GT(wrong, 0);
  EXPECT_LT(wrong, 20);
  cudaGraphExecDestroy(exec);
  cudaEventDestroy(fork);
  cudaEventDestroy(join);
  cudaStreamDestroy(side);
  cudaFree(value);
}

}  // namespace
}  // namespace fake_cuda
