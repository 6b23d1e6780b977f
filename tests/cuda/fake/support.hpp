// What the tests of the fake share.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

#include "control.hpp"

namespace fake_cuda {

class FakeCuda : public testing::Test {
 protected:
  void SetUp() override { reset(); }
  void TearDown() override { EXPECT_EQ(reset(), "") << "left behind by the test"; }

  static cudaStream_t stream() {
    cudaStream_t made = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking), cudaSuccess);
    return made;
  }
  static cudaEvent_t event() {
    cudaEvent_t made = nullptr;
    EXPECT_EQ(cudaEventCreateWithFlags(&made, cudaEventDisableTiming), cudaSuccess);
    return made;
  }
  static int* device_ints(std::size_t count) {
    void* made = nullptr;
    EXPECT_EQ(cudaMalloc(&made, count * sizeof(int)), cudaSuccess);
    return static_cast<int*>(made);
  }
  static int read(const int* device) {
    int value = -1;
    EXPECT_EQ(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost), cudaSuccess);
    return value;
  }
  static void set(cudaStream_t stream, int* device, int value) {
    EXPECT_EQ(enqueue_kernel(stream, "set", [=] { *device = value; }), cudaSuccess);
  }
  static void copy(cudaStream_t stream, const int* from, int* to) {
    EXPECT_EQ(enqueue_kernel(stream, "copy", [=] { *to = *from; }), cudaSuccess);
  }
};

}  // namespace fake_cuda
