// Streams and events of the fake: order where it was asked for, and none where it was not.
#include <atomic>
#include <thread>

#include "support.hpp"

namespace fake_cuda {
namespace {

class Streams : public FakeCuda {};

TEST_F(Streams, DoNotWaitForEachOtherUnlessTold) {
  cudaStream_t slow = stream();
  cudaStream_t quick = stream();
  int* value = device_ints(1);
  hold(slow);
  set(slow, value, 1);
  set(quick, value, 2);
  ASSERT_EQ(cudaStreamSynchronize(quick), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(slow), cudaErrorNotReady);
  release(slow);
  ASSERT_EQ(cudaStreamSynchronize(slow), cudaSuccess);
  EXPECT_EQ(read(value), 1);
  cudaStreamDestroy(slow);
  cudaStreamDestroy(quick);
  cudaFree(value);
}

TEST_F(Streams, AnEventOrdersThem) {
  cudaStream_t first = stream();
  cudaStream_t second = stream();
  cudaEvent_t ready = event();
  int* value = device_ints(2);
  hold(first);
  set(first, value, 7);
  ASSERT_EQ(cudaEventRecord(ready, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, ready, 0), cudaSuccess);
  copy(second, value, value + 1);
  EXPECT_EQ(cudaEventQuery(ready), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  release(first);
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(ready), cudaSuccess);
  EXPECT_EQ(read(value + 1), 7);
  cudaEventDestroy(ready);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  cudaFree(value);
}

// The planted fault: the wait is left out. What comes of it is stale, always, while the first stream is held.
TEST_F(Streams, AForgottenEventIsSeen) {
  cudaStream_t first = stream();
  cudaStream_t second = stream();
  int* value = device_ints(2);
  hold(first);
  set(first, value, 7);
  copy(second, value, value + 1);
  ASSERT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  release(first);
  ASSERT_EQ(cudaStreamSynchronize(first), cudaSuccess);
  EXPECT_NE(read(value + 1), 7);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  cudaFree(value);
}

TEST_F(Streams, AWaitIsForWhatWasRecordedWhenItWasCalled) {
  cudaStream_t first = stream();
  cudaStream_t second = stream();
  cudaEvent_t never = event();
  ASSERT_EQ(cudaStreamWaitEvent(second, never, 0), cudaSuccess);  // not recorded yet: no wait at all
  hold(first);
  ASSERT_EQ(cudaEventRecord(never, first), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(second), cudaSuccess);
  release(first);
  cudaStreamDestroy(first);
  cudaStreamDestroy(second);
  cudaEventDestroy(never);
}

TEST_F(Streams, TheDefaultStreamIsInOrderWithBlockingOnes) {
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  cudaStream_t free = stream();
  int* value = device_ints(2);
  hold(blocking);
  set(blocking, value, 1);
  copy(nullptr, value, value + 1);
  ASSERT_EQ(cudaStreamSynchronize(free), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(nullptr), cudaErrorNotReady);
  release(blocking);
  ASSERT_EQ(cudaStreamSynchronize(nullptr), cudaSuccess);
  EXPECT_EQ(read(value + 1), 1);
  cudaStreamDestroy(blocking);
  cudaStreamDestroy(free);
  cudaFree(value);
}

TEST_F(Streams, AHostFunctionMayNotCallCuda) {
  cudaStream_t stream_ = stream();
  cudaError_t inside = cudaSuccess;
  const auto body = [](void* data) { *static_cast<cudaError_t*>(data) = cudaFree(nullptr); };
  ASSERT_EQ(cudaLaunchHostFunc(stream_, body, &inside), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(inside, cudaErrorNotPermitted);
  EXPECT_EQ(counters().host_functions, 1u);
  cudaStreamDestroy(stream_);
}

TEST_F(Streams, AStreamThatIsDestroyedFinishesItsWork) {
  cudaStream_t gone = stream();
  int* value = device_ints(1);
  set(gone, value, 3);
  ASSERT_EQ(cudaStreamDestroy(gone), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(gone), cudaErrorInvalidResourceHandle);
  EXPECT_EQ(cudaStreamDestroy(gone), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaDeviceSynchronize(), cudaSuccess);
  EXPECT_EQ(read(value), 3);
  cudaFree(value);
}

TEST_F(Streams, PlantedErrorsComeOnceAndAtTheirCall) {
  fail_call("cudaEventQuery", cudaErrorUnknown, 2);
  cudaEvent_t any = event();
  EXPECT_EQ(cudaEventQuery(any), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(any), cudaErrorUnknown);
  EXPECT_EQ(cudaEventQuery(any), cudaSuccess);
  EXPECT_EQ(cudaGetLastError(), cudaErrorUnknown);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  cudaEventDestroy(any);
}

TEST_F(Streams, ABrokenDeviceFailsEverythingAndHangsNothing) {
  cudaStream_t stream_ = stream();
  hold(stream_);
  int ran = 0;
  ASSERT_EQ(enqueue_kernel(stream_, "never", [&] { ran = 1; }), cudaSuccess);
  break_device(cudaErrorIllegalAddress);
  release(stream_);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "such an error stays";
  EXPECT_NE(reset(), "");
  EXPECT_EQ(ran, 0);
}

TEST_F(Streams, AMachineWithoutADriverSaysSo) {
  reset({.devices = 0, .status = cudaErrorInsufficientDriver});
  int count = -1;
  EXPECT_EQ(cudaGetDeviceCount(&count), cudaErrorInsufficientDriver);
  EXPECT_EQ(count, 0);
  void* memory = nullptr;
  EXPECT_EQ(cudaMalloc(&memory, 1), cudaErrorInsufficientDriver);
}

TEST_F(Streams, HostWaitsAreCounted) {
  cudaStream_t stream_ = stream();
  cudaEvent_t done = event();
  int* value = device_ints(1);
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof(int)), cudaSuccess);
  const auto syncs = [before = counters()] { return (counters() - before).host_syncs; };
  set(stream_, value, 1);
  cudaMemcpyAsync(pinned, value, sizeof(int), cudaMemcpyDeviceToHost, stream_);
  cudaEventRecord(done, stream_);
  cudaEventQuery(done);
  EXPECT_EQ(syncs(), 0u);
  cudaEventSynchronize(done);
  EXPECT_EQ(syncs(), 1u);
  EXPECT_EQ(*static_cast<int*>(pinned), 1);
  int pageable = 0;
  cudaMemcpyAsync(&pageable, value, sizeof(int), cudaMemcpyDeviceToHost, stream_);
  EXPECT_EQ(syncs(), 2u) << "a copy into pageable memory waits, whatever its name says";
  EXPECT_EQ(pageable, 1);
  cudaFreeHost(pinned);
  cudaFree(value);
  cudaEventDestroy(done);
  cudaStreamDestroy(stream_);
}

}  // namespace
}  // namespace fake_cuda
