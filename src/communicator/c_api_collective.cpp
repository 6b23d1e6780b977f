// C API: collectives, their handles, residuals.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "communicator/c_api.hpp"
#include "communicator/devices.hpp"

using ferrule::Deadline;
using ferrule::ErrorCode;
using ferrule::Status;
using namespace ferrule::c_api;  // NOLINT: this file is the other half of that namespace
namespace communicator = ferrule::communicator;

namespace {

// Of a work that is done: its status, and the caller's stream knows.
Status outcome(const communicator::Work& work) { return work.status.ok() ? work.hold_stream() : work.status; }

Status check_count(const ferruleResidual& residual, std::size_t count) {
  if (residual.residual->count() == count) return {};
  return Status(ErrorCode::invalid_argument, "the residual has " +
                                                 std::to_string(residual.residual->count()) +
                                                 " elements, not " + std::to_string(count));
}

// The communicator is being destroyed by another thread, which ends all its work, well or not.
Status wait_for_destruction(const communicator::Work& work, Deadline until) {
  while (!work.done.load(std::memory_order_acquire)) {
    if (until.passed()) {
      return Status(ErrorCode::timeout,
                    "the collective is not done yet; its communicator is being destroyed");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return outcome(work);
}

// Made first: once the collective is queued, nothing may fail that would leave the caller without its handle.
template <class Call>
Status start_any(const Call& call, const ferruleOptions_t& given, ferruleComm_t comm) {
  const bool background = given.work != nullptr;
  auto handle = background ? std::make_unique<ferruleWork>() : nullptr;
  if (background) *given.work = nullptr;
  auto work = comm->communicator->start(call, background);
  FERRULE_RETURN_IF_ERROR(work.status());
  if (!background) return comm->communicator->wait(**work, Deadline::never());
  handle->work = *work;
  handle->communicator = comm->communicator;
  *given.work = handle.release();
  return {};
}

}  // namespace

namespace ferrule::c_api {

Status read_memory(const ferruleOptions_t& given, ferruleStream_t stream, communicator::Call& call) {
  if (given.memory != ferruleHostMemory && given.memory != ferruleDeviceMemory) {
    return Status(ErrorCode::invalid_argument,
                  "options.memory is no memory: ferruleHostMemory or ferruleDeviceMemory");
  }
  call.on_device = given.memory == ferruleDeviceMemory || stream != nullptr;
  call.stream = stream;
  return {};
}

Status read_options(const ferruleOptions_t* options, ferruleOptions_t& given, communicator::Call& call) {
  FERRULE_RETURN_IF_ERROR(read_struct(options, given, "options"));
  if (given.timeout_ns < 0) return Status(ErrorCode::invalid_argument, "options.timeout_ns is negative");
  call.codec = given.codec == nullptr ? "" : given.codec;
  call.algorithm = given.algorithm == nullptr ? "" : given.algorithm;
  call.residual = given.residual == nullptr ? nullptr : given.residual->residual.get();
  call.seed = given.seed;
  call.step = given.step;
  call.tensor = given.tensor;
  call.timeout = std::chrono::nanoseconds(given.timeout_ns);
  if (given.weight != nullptr) call.weight = *given.weight;
  return {};
}

Status start_call(const communicator::Call& call, const ferruleOptions_t& given, ferruleComm_t comm) {
  return start_any(call, given, comm);
}

Status start_transfer(const communicator::TransferCall& call, const ferruleOptions_t& given,
                      ferruleComm_t comm) {
  return start_any(call, given, comm);
}

}  // namespace ferrule::c_api

extern "C" {

ferruleResult_t ferruleAllReduce(const void* send, void* recv, size_t count, ferruleDataType_t dtype,
                                 ferruleRedOp_t op, const ferruleOptions_t* options, ferruleComm_t comm,
                                 ferruleStream_t stream) {
  return guarded([&]() -> Status {
    if (comm == nullptr) return null_argument("comm");
    communicator::Call call;
    ferruleOptions_t given = FERRULE_OPTIONS_INIT;
    FERRULE_RETURN_IF_ERROR(read_options(options, given, call));
    call.send = send;
    call.recv = recv;
    call.count = count;
    call.dtype = static_cast<ferrule::DType>(dtype);
    call.op = static_cast<ferrule::ReduceOp>(op);
    FERRULE_RETURN_IF_ERROR(read_memory(given, stream, call));
    return start_call(call, given, comm);
  });
}

ferruleResult_t ferruleWorkTest(ferruleWork_t work) {
  if (work != nullptr && !work->work->done.load(std::memory_order_acquire)) return ferruleInProgress;
  return guarded([&]() -> Status { return work == nullptr ? null_argument("work") : outcome(*work->work); });
}

ferruleResult_t ferruleWorkWait(ferruleWork_t work, int64_t timeout_ns) {
  return guarded([&]() -> Status {
    if (work == nullptr) return null_argument("work");
    if (work->work->done.load(std::memory_order_acquire)) return outcome(*work->work);
    const Deadline until =
        timeout_ns < 0 ? Deadline::never() : Deadline::after(std::chrono::nanoseconds(timeout_ns));
    const auto communicator = work->communicator.lock();
    if (communicator == nullptr) return wait_for_destruction(*work->work, until);
    return communicator->wait(*work->work, until);
  });
}

ferruleResult_t ferruleWorkBytesSent(ferruleWork_t work, uint64_t* bytes) {
  return guarded([&]() -> Status {
    if (work == nullptr || bytes == nullptr) return null_argument("work or bytes");
    if (!work->work->done.load(std::memory_order_acquire)) {
      return Status(ErrorCode::invalid_argument, "the collective is not done yet: wait for it first");
    }
    *bytes = work->work->bytes_sent;
    return {};
  });
}

ferruleResult_t ferruleWorkAlgorithm(ferruleWork_t work, const char** name) {
  return guarded([&]() -> Status {
    if (work == nullptr || name == nullptr) return null_argument("work or name");
    const bool transfers = work->work->transfer != nullptr;
    // Literals, so they end with a 0.
    *name = transfers ? "point_to_point" : work->work->intent.plan->algorithm().name.data();
    return {};
  });
}

ferruleResult_t ferruleWorkCodec(ferruleWork_t work, const char** spec) {
  return guarded([&]() -> Status {
    if (work == nullptr || spec == nullptr) return null_argument("work or spec");
    const bool transfers = work->work->transfer != nullptr;
    *spec = transfers ? "none" : work->work->intent.plan->codec_text().c_str();
    return {};
  });
}

ferruleResult_t ferruleWorkDestroy(ferruleWork_t work) {
  delete work;
  return ferruleSuccess;
}

ferruleResult_t ferruleResidualCreate(ferruleResidual_t* residual, size_t count) {
  return guarded([&]() -> Status {
    if (residual == nullptr) return null_argument("residual");
    *residual = nullptr;
    auto made = ferrule::residual::Residual::create(count);
    FERRULE_RETURN_IF_ERROR(made.status());
    *residual = new ferruleResidual{std::move(made).value()};
    return {};
  });
}

ferruleResult_t ferruleResidualCreateOnDevice(ferruleResidual_t* residual, size_t count, int device) {
  return guarded([&]() -> Status {
    if (residual == nullptr) return null_argument("residual");
    *residual = nullptr;
    communicator::attach_devices();
    auto runtime = ferrule::executor::device_runtime();
    FERRULE_RETURN_IF_ERROR(runtime.status());
    auto number = device >= 0 ? ferrule::Result<int>(device) : (*runtime)->current_device();
    FERRULE_RETURN_IF_ERROR(number.status());
    auto space = (*runtime)->space(*number);
    FERRULE_RETURN_IF_ERROR(space.status());
    auto made = ferrule::residual::Residual::create(count, *space);
    FERRULE_RETURN_IF_ERROR(made.status());
    *residual = new ferruleResidual{std::move(made).value()};
    return {};
  });
}

ferruleResult_t ferruleResidualRead(ferruleResidual_t residual, float* values, size_t count) {
  return guarded([&]() -> Status {
    if (residual == nullptr || values == nullptr) return null_argument("residual or values");
    FERRULE_RETURN_IF_ERROR(check_count(*residual, count));
    return residual->residual->read({values, count});
  });
}

ferruleResult_t ferruleResidualWrite(ferruleResidual_t residual, const float* values, size_t count) {
  return guarded([&]() -> Status {
    if (residual == nullptr || values == nullptr) return null_argument("residual or values");
    FERRULE_RETURN_IF_ERROR(check_count(*residual, count));
    return residual->residual->write({values, count});
  });
}

ferruleResult_t ferruleResidualCount(ferruleResidual_t residual, size_t* count) {
  return guarded([&]() -> Status {
    if (residual == nullptr || count == nullptr) return null_argument("residual or count");
    *count = residual->residual->count();
    return {};
  });
}

ferruleResult_t ferruleResidualData(ferruleResidual_t residual, float** data) {
  return guarded([&]() -> Status {
    if (residual == nullptr || data == nullptr) return null_argument("residual or data");
    *data = residual->residual->values();
    return {};
  });
}

ferruleResult_t ferruleResidualDestroy(ferruleResidual_t residual) {
  delete residual;
  return ferruleSuccess;
}

}  // extern "C"
