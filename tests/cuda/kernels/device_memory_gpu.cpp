#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "kernels/device_memory.hpp"

namespace ferrule::cuda::testing {
namespace {

void expect_ok(cudaError_t error, const char* what) {
  ASSERT_EQ(error, cudaSuccess) << what << ": " << cudaGetErrorString(error);
}

}  // namespace

struct DeviceBuffers::Copies {
  struct Copy {
    std::byte* base = nullptr;
    std::byte* at = nullptr;
    std::size_t bytes = 0;
    bool written = false;
  };
  std::map<void*, Copy> of;
};

DeviceBuffers::DeviceBuffers() : copies_(std::make_unique<Copies>()) {}

DeviceBuffers::~DeviceBuffers() {
  for (auto& [host, copy] : copies_->of) cudaFree(copy.base);
}

// The same distance from a 16-byte word as on the host, and 256 bytes of pattern on each side, which finish()
// checks.
void* DeviceBuffers::map(void* host, std::size_t bytes, bool written) {
  if (host == nullptr) return nullptr;
  constexpr std::size_t kAround = 256;
  auto& copy = copies_->of[host];
  copy.written = copy.written || written;
  if (copy.base != nullptr) return copy.at;
  copy.bytes = bytes;
  const std::size_t whole = bytes + 2 * kAround + 16;
  expect_ok(cudaMalloc(reinterpret_cast<void**>(&copy.base), whole), "cudaMalloc");
  expect_ok(cudaMemset(copy.base, 0xa5, whole), "cudaMemset");
  copy.at = copy.base + kAround + reinterpret_cast<std::uintptr_t>(host) % 16;
  if (bytes != 0) expect_ok(cudaMemcpy(copy.at, host, bytes, cudaMemcpyHostToDevice), "cudaMemcpy");
  return copy.at;
}

void DeviceBuffers::finish() {
  expect_ok(cudaDeviceSynchronize(), "kernels");
  for (auto& [host, copy] : copies_->of) {
    const auto before = static_cast<std::size_t>(copy.at - copy.base);
    std::vector<std::byte> all(copy.bytes + 512 + 16);
    expect_ok(cudaMemcpy(all.data(), copy.base, all.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (i >= before && i < before + copy.bytes) continue;
      ASSERT_EQ(all[i], std::byte{0xa5})
          << "wrote around a buffer of " << copy.bytes << " bytes, at "
          << static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(before);
    }
    if (copy.bytes == 0) continue;
    if (copy.written) {
      std::memcpy(host, all.data() + before, copy.bytes);
    } else {
      ASSERT_EQ(std::memcmp(host, all.data() + before, copy.bytes), 0) << "wrote to an input";
    }
  }
}

bool has_device() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0;
}

void choose_schedule(std::uint64_t) {}

}  // namespace ferrule::cuda::testing
