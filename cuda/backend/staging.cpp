#include "cuda/backend/staging.hpp"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>

#include "cuda/backend/error.hpp"

namespace ferrule::cuda {
namespace {

// Kernels read 16 bytes at a time, copies are fastest at multiples of 256.
constexpr std::size_t kAlignment = 256;

}  // namespace

Staging::~Staging() {
  for (const Area& area : all_) {
    static_cast<void>(area.on_host ? cudaFreeHost(area.data) : cudaFree(area.data));
  }
}

std::size_t Staging::stride() const {
  return (demand_.slot_bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Status Staging::reserve(const executor::Demand& demand) {
  demand_ = demand;
  const std::size_t received_bytes = demand.places * demand.received_slots * stride();
  FERRULE_RETURN_IF_ERROR(grow(scratch_, demand.places * demand.scratch_bytes, false));
  FERRULE_RETURN_IF_ERROR(grow(flags_, kFlags * sizeof(std::uint32_t), false));
  FERRULE_RETURN_IF_ERROR(grow(received_device_, received_bytes, false));
  FERRULE_RETURN_IF_ERROR(grow(received_host_, received_bytes, true));
  return grow(published_, demand.places * demand.published_slots * stride(), true);
}

Status Staging::grow(Area& area, std::size_t bytes, bool on_host) {
  if (area.bytes >= bytes) return {};
  Area larger{nullptr, std::max(bytes, 2 * area.bytes), on_host};
  void* data = nullptr;
  const cudaError_t error =
      on_host ? cudaHostAlloc(&data, larger.bytes, cudaHostAllocPortable) : cudaMalloc(&data, larger.bytes);
  if (error != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return Status(
        ErrorCode::system,
        fmt::format("CUDA: could not allocate {} bytes of {} memory for wire bytes: {}. Smaller slices "
                    "(FERRULE_SLICE) or fewer in flight (FERRULE_SLICES_IN_FLIGHT) need less",
                    larger.bytes, on_host ? "pinned" : "device", cudaGetErrorString(error)));
  }
  larger.data = static_cast<std::byte*>(data);
  area = larger;
  all_.push_back(larger);
  bytes_ += larger.bytes;
  return {};
}

}  // namespace ferrule::cuda
