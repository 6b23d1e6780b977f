// Device memory of the fake: who may touch it, and when.
#include <cstring>

#include "support.hpp"

namespace fake_cuda {
namespace {

class Memory : public FakeCuda {};
using MemoryDeathTest = Memory;

TEST_F(MemoryDeathTest, TheHostMayNotReadIt) {
  if (!protects_memory()) GTEST_SKIP() << "not under ThreadSanitizer";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  int* value = device_ints(1);
  EXPECT_DEATH(
      {
        volatile int seen = *value;
        static_cast<void>(seen);
      },
      "");
  cudaFree(value);
}

TEST_F(Memory, IsPoisonedWhenItIsNewAndWhenItIsFreed) {
  cudaStream_t stream_ = stream();
  void* memory = nullptr;
  ASSERT_EQ(cudaMallocAsync(&memory, sizeof(int), stream_), cudaSuccess);
  auto* value = static_cast<int*>(memory);
  int* seen = device_ints(3);
  copy(stream_, value, seen);
  set(stream_, value, 5);
  copy(stream_, value, seen + 1);
  ASSERT_EQ(cudaFreeAsync(value, stream_), cudaSuccess);
#ifndef __SANITIZE_ADDRESS__
  copy(stream_, value, seen + 2);  // the planted fault: used after it was freed
#endif
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  const int poison = static_cast<int>(0xa5a5a5a5u);
  EXPECT_EQ(read(seen), poison);
  EXPECT_EQ(read(seen + 1), 5);
  EXPECT_EQ(read(seen + 2), poison);
  cudaFree(seen);
  cudaStreamDestroy(stream_);
}

TEST_F(Memory, PointersAreKnownByTheirKind) {
  int* device = device_ints(4);
  void* pinned = nullptr;
  void* managed = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 16), cudaSuccess);
  ASSERT_EQ(cudaMallocManaged(&managed, 16, cudaMemAttachGlobal), cudaSuccess);
  std::vector<int> pageable(4);
  const auto type_of = [](const void* pointer) {
    cudaPointerAttributes attributes{};
    EXPECT_EQ(cudaPointerGetAttributes(&attributes, pointer), cudaSuccess);
    return attributes.type;
  };
  EXPECT_EQ(type_of(device + 3), cudaMemoryTypeDevice);
  EXPECT_EQ(type_of(pinned), cudaMemoryTypeHost);
  EXPECT_EQ(type_of(managed), cudaMemoryTypeManaged);
  EXPECT_EQ(type_of(pageable.data()), cudaMemoryTypeUnregistered);
  ASSERT_EQ(cudaHostRegister(pageable.data(), 16, cudaHostRegisterDefault), cudaSuccess);
  EXPECT_EQ(type_of(pageable.data() + 1), cudaMemoryTypeHost);
  EXPECT_EQ(cudaHostUnregister(pageable.data()), cudaSuccess);
  EXPECT_EQ(cudaFree(pinned), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(device + 1), cudaErrorInvalidValue);
  cudaFreeHost(pinned);
  cudaFree(managed);
  cudaFree(device);
}

TEST_F(Memory, CopiesAreCheckedAgainstWhatIsThere) {
  int* device = device_ints(4);
  int host[5] = {1, 2, 3, 4, 5};
  EXPECT_EQ(cudaMemcpy(device, host, 20, cudaMemcpyHostToDevice), cudaErrorInvalidValue) << "a byte too many";
  EXPECT_EQ(cudaMemcpy(device, host, 16, cudaMemcpyDeviceToHost), cudaErrorInvalidValue) << "wrong way round";
  EXPECT_EQ(cudaMemcpy(device, host, 16, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(read(device + 3), 4);
  cudaFree(device);
}

TEST_F(Memory, PageableSourcesAreReadBeforeTheCallReturns) {
  cudaStream_t stream_ = stream();
  int* device = device_ints(1);
  hold(stream_);
  int host = 1;
  ASSERT_EQ(cudaMemcpyAsync(device, &host, sizeof host, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  host = 2;
  release(stream_);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(read(device), 1);
  // Pinned memory is read when the stream gets there: the same program is wrong with it.
  void* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, sizeof host), cudaSuccess);
  std::memcpy(pinned, &host, sizeof host);
  hold(stream_);
  ASSERT_EQ(cudaMemcpyAsync(device, pinned, sizeof host, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  *static_cast<int*>(pinned) = 3;
  release(stream_);
  ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
  EXPECT_EQ(read(device), 3);
  cudaFreeHost(pinned);
  cudaFree(device);
  cudaStreamDestroy(stream_);
}

TEST_F(Memory, WhatIsForgottenIsReported) {
  int* lost = device_ints(5);
  static_cast<void>(lost);
  EXPECT_NE(reset().find("20 bytes of device memory"), std::string::npos);
}

TEST_F(Memory, EndsWhereItEnds) {
  int* device = device_ints(4);
  EXPECT_TRUE(is_device_memory(device, 16));
  EXPECT_FALSE(is_device_memory(device, 17));
  EXPECT_FALSE(is_device_memory(device + 2, 12));
  cudaFree(device);
  EXPECT_FALSE(is_device_memory(device, 1));
}

}  // namespace
}  // namespace fake_cuda
