// What a stream-ordered run needs of a device. Nothing waits for the device, but where it says so.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "codec/codec.hpp"
#include "ferrule/status.hpp"
#include "ferrule/types.hpp"

namespace ferrule::executor {

/// A place in a stream that work has reached, or not yet.
class StreamMark {
 public:
  virtual ~StreamMark() = default;
  /// An error is the device's: nothing on it will end well. Any thread, also while a graph is being captured.
  virtual Result<bool> passed() = 0;
};

/// Thread safe. All pointers but those in spans and argument structures are device memory.
class StreamDevice {
 public:
  virtual ~StreamDevice() = default;

  /// Whether what is enqueued on the stream goes into a graph, to be run later, perhaps often.
  virtual Result<bool> is_captured(void* stream) const = 0;
  /// May wait for the device. Not while a graph is being captured.
  virtual Result<std::byte*> allocate(std::size_t bytes) = 0;
  virtual void release(std::byte* memory) = 0;
  virtual Result<std::shared_ptr<StreamMark>> mark(void* stream) = 0;
  /// `invalid_argument`, naming it, if the pointer is no memory of this device.
  virtual Status check_pointer(const void* pointer, const char* name) const = 0;
  /// Whether it has kernels for what the codec may be asked to do.
  virtual Status check(const codec::Codec& codec, DType dtype, ReduceOp op) const = 0;

  // Arithmetic of codec::Codec. The calls of a span do not depend on each other: they may be one kernel.
  virtual Status encode(const codec::Codec& codec, std::span<const codec::EncodeArgs> calls,
                        void* stream) = 0;
  /// not_finite[i], one for each call, becomes 1 where Codec::decode would have returned false, and is left
  /// as it is elsewhere. Null: nobody asks.
  virtual Status decode(const codec::Codec& codec, std::span<const codec::DecodeArgs> calls,
                        std::uint32_t* not_finite, void* stream) = 0;
  /// residual::keep_where_not_finite.
  struct Keep {
    const void* out = nullptr;
    DType dtype = DType::f32;
    std::size_t count = 0;
    const float* before = nullptr;
    float* after = nullptr;
    const std::uint32_t* only_if = nullptr;  ///< nothing is done where it is 0; null: always done
  };
  virtual Status keep_where_not_finite(const Keep& keep, void* stream) = 0;
  virtual Status copy(void* to, const void* from, std::size_t bytes, void* stream) = 0;
  virtual Status clear(void* memory, std::size_t bytes, void* stream) = 0;
};

}  // namespace ferrule::executor
