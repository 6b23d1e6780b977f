// The executor's backend for CUDA: three streams of its own.
//
//   compute    kernels, in the order in which the executor submits them
//   incoming   wire bytes from pinned host memory to the device; kernels follow by an event
//   outgoing   encoded bytes from the device to pinned host memory; they follow the kernel that wrote them
//
// So the copies of some slices run while others are encoded and decoded. The caller's stream is marked at the
// call, and waits for a mark at the end; it is never waited for.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "cuda/backend/events.hpp"
#include "cuda/backend/lane.hpp"
#include "cuda/backend/staging.hpp"
#include "cuda/codec_kernels.hpp"
#include "executor/backend.hpp"

namespace ferrule::cuda {

class CudaBackend final : public executor::Backend {
 public:
  static Result<std::unique_ptr<executor::Backend>> make(const MemorySpace& space,
                                                         std::shared_ptr<EventPool> events);
  ~CudaBackend() override;

  const MemorySpace& space() const override { return space_; }
  Status check(const codec::Codec& codec, DType dtype, ReduceOp op) const override;
  Status reserve(const executor::Demand& demand) override;
  std::byte* scratch() const override { return staging_.scratch(); }
  std::size_t bytes() const override { return staging_.bytes(); }

  Status encode(const codec::Codec& codec, const codec::EncodeArgs& args) override;
  Status decode(const codec::Codec& codec, const codec::DecodeArgs& args,
                const executor::Kept& kept) override;
  Status keep_where_not_finite(const codec::DecodeArgs& decoded, const executor::Kept& kept) override;
  Status copy(void* to, const void* from, std::size_t bytes) override;

  Result<const std::byte*> bring(const executor::SlotAt& at, std::span<const std::byte> bytes) override;
  Result<executor::Published> publish(const executor::SlotAt& at, std::span<const std::byte> bytes) override;
  Result<executor::Ticket> fence() override;
  Result<bool> passed(const executor::Ticket& ticket) override;
  Status recycle(std::size_t place) override;
  Result<std::shared_ptr<executor::Mark>> mark() override;
  bool idle() override;

 private:
  CudaBackend(const MemorySpace& space, std::shared_ptr<EventPool> events);

  Result<CodecKernels> kernels(const codec::Codec& codec);
  /// A word that is 0 until a decode sets it.
  Result<std::uint32_t*> next_flag();
  Status keep(const codec::DecodeArgs& decoded, const executor::Kept& kept, const std::uint32_t* only_if);
  Status copy_async(void* to, const void* from, std::size_t bytes, Lane& lane) const;

  const MemorySpace& space_;
  std::shared_ptr<EventPool> events_;
  Staging staging_;
  Lane compute_;
  Lane incoming_;
  Lane outgoing_;
  std::map<const codec::Codec*, CodecKernels> kernels_;
  std::size_t next_flag_ = Staging::kFlags;  // all have been used: the first use clears them
  std::uint64_t incoming_before_ = 0;        // of the job before: its copies may still read pinned slots
  std::vector<std::uint64_t> arrivals_;      // by received slot: its last copy
  std::vector<std::uint64_t> recycled_;      // by place: the last kernel that reads its received slots
};

}  // namespace ferrule::cuda
