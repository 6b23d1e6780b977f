// Ferrule's C++ API: a thin, header-only layer on the C API (ferrule.h), with values for errors and handles
// that free themselves. Shapes, units, ownership and thread rules are those of the C functions.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ferrule/codec_spec.hpp"
#include "ferrule/collectives.hpp"
#include "ferrule/ferrule.h"
#include "ferrule/status.hpp"
#include "ferrule/tensor_view.hpp"
#include "ferrule/types.hpp"

namespace ferrule {

namespace detail {

/// A C result with the thread's error text.
inline Status to_status(ferruleResult_t result) {
  if (result == ferruleSuccess) return {};
  return Status(static_cast<ErrorCode>(result), ferruleGetLastError());
}

template <class Handle, ferruleResult_t (*destroy)(Handle)>
struct Destroy {
  using pointer = Handle;
  void operator()(Handle handle) const { static_cast<void>(destroy(handle)); }
};
template <class Handle, ferruleResult_t (*destroy)(Handle)>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroy<Handle, destroy>>;

inline const char* text_or_null(const std::string& text) { return text.empty() ? nullptr : text.c_str(); }

}  // namespace detail

/// What lossy encodes have left behind: one fp32 an element, in units of the sum.
class Residual {
 public:
  static Result<Residual> create(std::size_t count) {
    ferruleResidual_t handle = nullptr;
    FERRULE_RETURN_IF_ERROR(detail::to_status(ferruleResidualCreate(&handle, count)));
    return Residual(handle, count);
  }
  /// For tensors in the memory of a device; negative: the thread's current one.
  static Result<Residual> create_on_device(std::size_t count, int device = -1) {
    ferruleResidual_t handle = nullptr;
    FERRULE_RETURN_IF_ERROR(detail::to_status(ferruleResidualCreateOnDevice(&handle, count, device)));
    return Residual(handle, count);
  }
  /// Copies of all values, wherever they are: between collectives.
  Status read(std::span<float> out) const {
    return detail::to_status(ferruleResidualRead(handle_.get(), out.data(), out.size()));
  }
  Status write(std::span<const float> in) const {
    return detail::to_status(ferruleResidualWrite(handle_.get(), in.data(), in.size()));
  }
  /// Valid until the next collective that uses this residual. Of a device's, the pointer is one of the
  /// device.
  std::span<float> values() const {
    float* data = nullptr;
    static_cast<void>(ferruleResidualData(handle_.get(), &data));
    return {data, count_};
  }
  ferruleResidual_t handle() const { return handle_.get(); }

 private:
  Residual(ferruleResidual_t handle, std::size_t count) : handle_(handle), count_(count) {}
  detail::Owned<ferruleResidual_t, ferruleResidualDestroy> handle_;
  std::size_t count_;
};

/// Options of one collective, of any kind; the fields are those of ferruleOptions_t. Empty strings: the
/// communicator's. A codec of "none/int4" is exact inside a node and 4 bits between nodes (algorithm
/// "hierarchical").
struct AllReduceOptions {
  std::string codec;
  std::string algorithm;
  const Residual* residual = nullptr;
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint64_t tensor = 0;
  std::chrono::nanoseconds timeout{0};
  ferruleStream_t stream = nullptr;             ///< cudaStream_t, for tensors in device memory
  std::optional<double> weight = std::nullopt;  ///< of this rank in a weighted mean (avg)

  /// Valid while this lives.
  ferruleOptions_t to_c() const {
    ferruleOptions_t c = FERRULE_OPTIONS_INIT;
    c.codec = detail::text_or_null(codec);
    c.algorithm = detail::text_or_null(algorithm);
    c.residual = residual != nullptr ? residual->handle() : nullptr;
    c.seed = seed;
    c.step = step;
    c.tensor = tensor;
    c.timeout_ns = timeout.count();
    c.weight = weight ? &*weight : nullptr;
    return c;
  }
};
using CollectiveOptions = AllReduceOptions;

/// One collective under way. Destroying it does not end the collective.
class Work {
 public:
  Work() = default;
  explicit Work(ferruleWork_t handle) : handle_(handle) {}

  /// Done, and well or not: see wait().
  bool done() const { return ferruleWorkTest(handle_.get()) != ferruleInProgress; }
  /// Until done, by the collective's own deadline.
  Status wait() const { return detail::to_status(ferruleWorkWait(handle_.get(), -1)); }
  Status wait(std::chrono::nanoseconds timeout) const {
    return detail::to_status(ferruleWorkWait(handle_.get(), timeout.count()));
  }
  /// true: done well. false: not yet. Else how it failed. Never waits.
  Result<bool> test() const {
    const ferruleResult_t result = ferruleWorkTest(handle_.get());
    if (result == ferruleInProgress) return false;
    FERRULE_RETURN_IF_ERROR(detail::to_status(result));
    return true;
  }
  std::uint64_t bytes_sent() const {
    std::uint64_t bytes = 0;
    static_cast<void>(ferruleWorkBytesSent(handle_.get(), &bytes));
    return bytes;
  }
  /// What it runs; the same whether it is done or not.
  std::string algorithm() const {
    const char* name = "";
    static_cast<void>(ferruleWorkAlgorithm(handle_.get(), &name));
    return name;
  }
  std::string codec() const {
    const char* spec = "";
    static_cast<void>(ferruleWorkCodec(handle_.get(), &spec));
    return spec;
  }
  /// Of a receive that is done: whose bytes it took.
  int source() const {
    int rank = -1;
    static_cast<void>(ferruleWorkSource(handle_.get(), &rank));
    return rank;
  }
  ferruleWork_t handle() const { return handle_.get(); }

 private:
  detail::Owned<ferruleWork_t, ferruleWorkDestroy> handle_;
};

/// Settings of a communicator; the fields are those of ferruleConfig_t. Empty: from the FERRULE_* settings.
struct CommunicatorConfig {
  std::string transport;
  std::string codec;
  std::string algorithm;
  std::string link;
  std::string fault;
  std::chrono::nanoseconds timeout{0};

  ferruleConfig_t to_c() const {
    ferruleConfig_t config = FERRULE_CONFIG_INIT;
    config.transport = detail::text_or_null(transport);
    config.codec = detail::text_or_null(codec);
    config.algorithm = detail::text_or_null(algorithm);
    config.link = detail::text_or_null(link);
    config.fault = detail::text_or_null(fault);
    config.timeout_ns = timeout.count();
    return config;
  }
};

/// A group of ranks. Movable; destroyed when it goes out of scope.
class Communicator : public CollectiveCalls<Communicator, CollectiveOptions, Work> {
 public:
  static Result<Communicator> from_env(const CommunicatorConfig& config = {}) {
    const ferruleConfig_t c = config.to_c();
    ferruleComm_t handle = nullptr;
    FERRULE_RETURN_IF_ERROR(detail::to_status(ferruleCommInitFromEnv(&handle, &c)));
    return Communicator(handle);
  }
  static Result<Communicator> connect(int rank, int size, const std::string& rendezvous,
                                      const CommunicatorConfig& config = {}) {
    const ferruleConfig_t c = config.to_c();
    ferruleComm_t handle = nullptr;
    FERRULE_RETURN_IF_ERROR(
        detail::to_status(ferruleCommInitRank(&handle, size, rendezvous.c_str(), rank, &c)));
    return Communicator(handle);
  }
  /// `size` ranks in this process, one a thread.
  static Result<std::vector<Communicator>> local(int size, const CommunicatorConfig& config = {}) {
    const ferruleConfig_t c = config.to_c();
    std::vector<ferruleComm_t> handles(size > 0 ? static_cast<std::size_t>(size) : 0);
    FERRULE_RETURN_IF_ERROR(detail::to_status(ferruleCommInitLocal(handles.data(), size, &c)));
    std::vector<Communicator> comms;
    for (const ferruleComm_t handle : handles) comms.push_back(Communicator(handle));
    return comms;
  }

  /// Those of the same colour, ordered by (key, rank here). A negative colour: a communicator that is none
  /// (handle() is null). All ranks call it.
  Result<Communicator> split(int color, int key = 0) const {
    ferruleComm_t child = nullptr;
    FERRULE_RETURN_IF_ERROR(detail::to_status(ferruleCommSplit(handle_.get(), color, key, &child)));
    return Communicator(child);
  }
  /// Those that are left of this communicator, which is broken. All survivors call it; after an error, again.
  Result<Communicator> shrink(ferruleResidualPolicy_t residuals = ferruleKeepResiduals) const {
    ferruleComm_t smaller = nullptr;
    FERRULE_RETURN_IF_ERROR(detail::to_status(ferruleCommShrink(handle_.get(), &smaller, residuals)));
    return Communicator(smaller);
  }

  explicit Communicator(ferruleComm_t handle) : handle_(handle) {}

  int rank() const {
    int rank = -1;
    static_cast<void>(ferruleCommRank(handle_.get(), &rank));
    return rank;
  }
  int size() const {
    int size = 0;
    static_cast<void>(ferruleCommSize(handle_.get(), &size));
    return size;
  }
  std::string transport() const {
    const char* name = "";
    static_cast<void>(ferruleCommTransport(handle_.get(), &name));
    return name;
  }
  ferruleStats_t stats() const {
    ferruleStats_t stats{};
    stats.struct_bytes = sizeof stats;
    static_cast<void>(ferruleCommStats(handle_.get(), &stats));
    return stats;
  }

  /// In place; returns when done.
  Status all_reduce(const TensorView& tensor, ReduceOp op = ReduceOp::sum,
                    const AllReduceOptions& options = {}) const {
    return all_reduce(tensor.data, tensor, op, options);
  }
  /// Out of place: `send` holds as many elements, of the same dtype and in the same memory, as `recv`.
  Status all_reduce(const void* send, const TensorView& recv, ReduceOp op = ReduceOp::sum,
                    const AllReduceOptions& options = {}) const {
    return detail::to_status(start(send, recv, op, options, nullptr));
  }
  /// In place, asynchronous: the tensor must stay in place until the Work is done.
  Result<Work> all_reduce_async(const TensorView& tensor, ReduceOp op = ReduceOp::sum,
                                const AllReduceOptions& options = {}) const {
    return all_reduce_async(tensor.data, tensor, op, options);
  }
  Result<Work> all_reduce_async(const void* send, const TensorView& recv, ReduceOp op = ReduceOp::sum,
                                const AllReduceOptions& options = {}) const {
    ferruleWork_t work = nullptr;
    FERRULE_RETURN_IF_ERROR(detail::to_status(start(send, recv, op, options, &work)));
    return Work(work);
  }
  /// From any thread: ends all pending and later work with `aborted`.
  void abort() const { static_cast<void>(ferruleCommAbort(handle_.get())); }
  ferruleComm_t handle() const { return handle_.get(); }

 private:
  ferruleResult_t start(const void* send, const TensorView& recv, ReduceOp op,
                        const AllReduceOptions& options, ferruleWork_t* work) const {
    ferruleOptions_t c = options.to_c();
    c.work = work;
    c.memory = static_cast<ferruleMemory_t>(recv.memory);
    return ferruleAllReduce(send, recv.data, recv.count, static_cast<ferruleDataType_t>(recv.dtype),
                            static_cast<ferruleRedOp_t>(op), &c, handle_.get(), options.stream);
  }

  detail::Owned<ferruleComm_t, ferruleCommDestroy> handle_;
};

/// A codec by itself, for files, experiments and tests. Of a list for several levels ("none/int4") it encodes
/// as the last one.
class Codec {
 public:
  static Result<Codec> create(const std::string& spec) {
    ferruleCodec_t handle = nullptr;
    FERRULE_RETURN_IF_ERROR(detail::to_status(ferruleCodecCreate(&handle, spec.c_str())));
    return Codec(handle);
  }
  std::string spec() const {
    const char* text = "";
    static_cast<void>(ferruleCodecSpec(handle_.get(), &text));
    return text;
  }
  std::size_t block() const {
    std::size_t elements = 0;
    static_cast<void>(ferruleCodecBlock(handle_.get(), &elements));
    return elements;
  }
  Result<std::size_t> encoded_bytes(std::size_t count, DType dtype = DType::f32) const {
    std::size_t bytes = 0;
    FERRULE_RETURN_IF_ERROR(detail::to_status(
        ferruleCodecEncodedBytes(handle_.get(), count, static_cast<ferruleDataType_t>(dtype), &bytes)));
    return bytes;
  }
  Status encode(const TensorView& in, std::span<std::byte> out, const Residual* residual = nullptr,
                std::uint64_t seed = 0, std::uint64_t step = 0) const {
    return detail::to_status(ferruleCodecEncode(
        handle_.get(), in.data, in.count, static_cast<ferruleDataType_t>(in.dtype),
        residual != nullptr ? residual->handle() : nullptr, seed, step, out.data(), out.size()));
  }
  Status decode(std::span<const std::byte> in, const TensorView& out) const {
    return detail::to_status(ferruleCodecDecode(handle_.get(), in.data(), in.size(), out.data, out.count,
                                                static_cast<ferruleDataType_t>(out.dtype)));
  }
  Result<double> error_bound(const TensorView& in) const {
    double bound = 0;
    FERRULE_RETURN_IF_ERROR(detail::to_status(ferruleCodecErrorBound(
        handle_.get(), in.data, in.count, static_cast<ferruleDataType_t>(in.dtype), &bound)));
    return bound;
  }
  ferruleCodec_t handle() const { return handle_.get(); }

 private:
  explicit Codec(ferruleCodec_t handle) : handle_(handle) {}
  detail::Owned<ferruleCodec_t, ferruleCodecDestroy> handle_;
};

}  // namespace ferrule
