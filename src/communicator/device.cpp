// Collectives on tensors in the memory of a device: whose memory it is, and when the caller's stream gets
// there.
#include <fmt/format.h>

#include <thread>

#include "communicator/communicator.hpp"
#include "communicator/devices.hpp"

namespace ferrule::communicator {
namespace {

Status invalid(std::string text) { return Status(ErrorCode::invalid_argument, std::move(text)); }

// While the device works towards the input of a check.
constexpr std::chrono::microseconds kNap{50};

}  // namespace

Result<int> Communicator::find_device(const Call& call) const {
  if (call.weight) {
    return Status(
        ErrorCode::unsupported,
        "a weighted mean of a tensor in device memory: multiply by weight * size / sum of weights there, "
        "and reduce without a weight");
  }
  attach_devices();
  auto runtime = executor::device_runtime();
  FERRULE_RETURN_IF_ERROR(runtime.status());
  // A rank may have nothing to give, or nothing to get.
  auto device = (*runtime)->device_of(call.send != nullptr ? call.send : call.recv,
                                      call.send != nullptr ? "send" : "recv");
  FERRULE_RETURN_IF_ERROR(device.status());
  auto other = call.recv != nullptr ? (*runtime)->device_of(call.recv, "recv") : device;
  FERRULE_RETURN_IF_ERROR(other.status());
  if (*other != *device) {
    return invalid(
        fmt::format("send is on device {}, recv on device {}: one device a call", *device, *other));
  }
  if (device_ >= 0 && device_ != *device) {
    return invalid(
        fmt::format("the tensor is on device {}, but this communicator has worked on device {}: make "
                    "a communicator for each device",
                    *device, device_));
  }
  const MemorySpace* kept = call.residual == nullptr ? nullptr : call.residual->space();
  if (call.residual != nullptr && (kept == nullptr || kept->device() != *device)) {
    const std::string where =
        kept == nullptr ? "in host memory" : fmt::format("on device {}", kept->device());
    return invalid(
        fmt::format("the residual is {}, the tensor on device {}: make it with "
                    "ferruleResidualCreateOnDevice",
                    where, *device));
  }
  return device;
}

Status Communicator::check_residual_place(const Call& call) {
  if (call.residual == nullptr || call.residual->space() == nullptr || call.on_device) return {};
  return invalid(
      "the residual is in device memory, the tensor in host memory: make it with ferruleResidualCreate");
}

Status Communicator::prepare_device(const Call& call, Work& work) {
  auto device = find_device(call);
  FERRULE_RETURN_IF_ERROR(device.status());
  auto runtime = executor::device_runtime();
  FERRULE_RETURN_IF_ERROR(runtime.status());
  auto ready = (*runtime)->mark(*device, call.stream);
  FERRULE_RETURN_IF_ERROR(ready.status());
  if (backend_ == nullptr) {
    auto made = (*runtime)->make_backend(*device);
    FERRULE_RETURN_IF_ERROR(made.status());
    backend_ = std::move(made).value();
    device_ = *device;
  }
  work.stream = call.stream;
  work.job.backend = backend_.get();
  work.job.input_ready = std::move(ready).value();
  return {};
}

// Before anything is queued: a rank that cannot do it must not leave the others waiting.
Status Communicator::check_kernels(const plan::Plan& plan) const {
  for (const plan::Instruction& instruction : plan.program().instructions) {
    if (instruction.kind == plan::Instruction::Kind::send) continue;
    FERRULE_RETURN_IF_ERROR(backend_->check(plan.codec(instruction.level), plan.dtype(), plan.op()));
  }
  return {};
}

Result<std::vector<std::byte>> Communicator::fetch(const Work& work, const void* data,
                                                   std::size_t elements) const {
  std::vector<std::byte> host;
  if (work.job.backend == nullptr) return host;
  const Deadline limit = Deadline::after(work.timeout);
  auto end = work.job.backend->mark();
  FERRULE_RETURN_IF_ERROR(end.status());
  for (executor::Mark* mark : {work.job.input_ready.get(), (*end).get()}) {
    for (auto passed = mark->passed(); !passed.ok() || !*passed; passed = mark->passed()) {
      FERRULE_RETURN_IF_ERROR(passed.status());
      if (limit.passed() || abort_requested_.load()) {
        return Status(ErrorCode::timeout,
                      "a check waited for the device in vain: see what its streams wait for");
      }
      std::this_thread::sleep_for(kNap);
    }
  }
  host.resize(elements * element_bytes(work.job.plan->dtype()));
  FERRULE_RETURN_IF_ERROR(work.job.backend->space().read(host.data(), data, host.size()));
  return host;
}

}  // namespace ferrule::communicator
