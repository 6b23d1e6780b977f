// What the executor needs of a device: the arithmetic of a codec on its memory, and bytes brought there and
// back. Host memory has no backend: there arithmetic is a call of the codec, done when it returns.
//
// Everything is in the order of streams that belong to the backend. Nothing waits: what takes time gives a
// ticket, and passed() says whether it is done. So the executor is the same one: an instruction counts as
// done once it has been submitted, and only what leaves the device (bytes for a transport, memory of a peer's
// that is given back) waits for its ticket.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/memory_space.hpp"
#include "codec/codec.hpp"
#include "ferrule/status.hpp"

namespace ferrule::executor {

/// A point in the order of a stream.
class Mark {
 public:
  virtual ~Mark() = default;
  /// Whether everything before it is done. Never waits.
  virtual Result<bool> passed() = 0;
  /// Makes a stream of the caller's wait for it; the host goes on at once.
  virtual Status hold(void* stream) = 0;
};

/// The memory of a job, for as many slices as are in flight (places).
struct Demand {
  std::size_t places = 0;
  std::size_t scratch_bytes = 0;    ///< a place; on the device
  std::size_t received_slots = 0;   ///< a place; on the device and on the host
  std::size_t published_slots = 0;  ///< a place; on the host
  std::size_t slot_bytes = 0;       ///< of each of these

  std::size_t slots() const { return places * (received_slots + published_slots); }
};

/// Which slot of a kind, of which slice in flight.
struct SlotAt {
  std::size_t place = 0;
  std::size_t slot = 0;
};

/// Something that has been submitted. A default one has passed.
struct Ticket {
  enum class Lane : std::uint8_t { compute, outgoing };
  Lane lane = Lane::compute;
  std::uint64_t number = 0;
};

/// Bytes for a transport: to be read when the ticket has passed.
struct Published {
  std::span<const std::byte> bytes;
  const MemorySpace* space = nullptr;  ///< null: the host's
  Ticket ready;
};

/// The residual of what is decoded, which stays as it was before the collective where nothing was delivered.
struct Kept {
  const float* before = nullptr;
  float* after = nullptr;  ///< null: there is no residual
};

/// One communicator's work on one device. Used by the transport's owner only. After an error only idle() and
/// the destructor may be called, which waits for what was submitted.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const MemorySpace& space() const = 0;
  /// Whether there is a kernel for everything this codec may be asked to do.
  virtual Status check(const codec::Codec& codec, DType dtype, ReduceOp op) const = 0;
  /// Grows its memory where this job needs more than any before. Nothing may be under way.
  virtual Status reserve(const Demand& demand) = 0;
  /// demand.places * demand.scratch_bytes.
  virtual std::byte* scratch() const = 0;
  virtual std::size_t bytes() const = 0;  ///< held on the device and on the host

  // Arithmetic, all pointers on the device.
  virtual Status encode(const codec::Codec& codec, const codec::EncodeArgs& args) = 0;
  /// Whether its values were finite stays on the device: so what follows from it happens there.
  virtual Status decode(const codec::Codec& codec, const codec::DecodeArgs& args, const Kept& kept) = 0;
  /// Where the output is there without a decode. See residual::keep_where_not_finite.
  virtual Status keep_where_not_finite(const codec::DecodeArgs& decoded, const Kept& kept) = 0;
  virtual Status copy(void* to, const void* from, std::size_t bytes) = 0;

  /// Host bytes become readable for arithmetic that is submitted after this; they may be given back at once.
  /// Null: the slot's last bytes are still on their way, try again.
  virtual Result<const std::byte*> bring(const SlotAt& at, std::span<const std::byte> bytes) = 0;
  /// Makes what arithmetic so far has written readable for the host.
  virtual Result<Published> publish(const SlotAt& at, std::span<const std::byte> bytes) = 0;
  /// A ticket for all arithmetic so far.
  virtual Result<Ticket> fence() = 0;
  virtual Result<bool> passed(const Ticket& ticket) = 0;
  /// The place's slice has ended: arithmetic so far is the last that reads its received slots.
  virtual Status recycle(std::size_t place) = 0;
  /// All arithmetic so far, for streams of the caller's.
  virtual Result<std::shared_ptr<Mark>> mark() = 0;
  /// Whether nothing is under way. An error of the device counts as idle: nothing runs there any more.
  virtual bool idle() = 0;
};

/// A kind of device, e.g. CUDA. Thread safe; lives as long as the process.
class DeviceRuntime {
 public:
  virtual ~DeviceRuntime() = default;

  /// The device whose memory `pointer` is in. `invalid_argument`, saying what it is, if it is no device
  /// memory.
  virtual Result<int> device_of(const void* pointer, const char* name) = 0;
  /// The calling thread's current device.
  virtual Result<int> current_device() = 0;
  virtual Result<MemorySpace*> space(int device) = 0;
  virtual Result<std::unique_ptr<Backend>> make_backend(int device) = 0;
  /// Marks where `stream` is now. `unsupported` if the stream is being captured: a host drives the transport.
  virtual Result<std::shared_ptr<Mark>> mark(int device, void* stream) = 0;
};

/// That of this process; `unsupported`, with the reason, where there is none.
Result<DeviceRuntime*> device_runtime();
/// Given once, before any communicator is made; or by tests. Null takes it away.
void set_device_runtime(DeviceRuntime* runtime);

}  // namespace ferrule::executor
