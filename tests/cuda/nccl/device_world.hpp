// Ranks as threads, a fake device each, joined by the fake NCCL.
#pragma once

#include <cuda_runtime_api.h>

#include <barrier>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "control.hpp"
#include "cuda/nccl/case.hpp"
#include "cuda/stream_runtime.hpp"
#include "executor/stream_run.hpp"
#include "executor/stream_watch.hpp"
#include "nccl.hpp"
#include "transport/nccl/nccl_link.hpp"

namespace ferrule::testing {

inline constexpr std::chrono::seconds kLimit{60};  ///< where nothing should take long

/// Every rank's value to every rank.
class Rendezvous {
 public:
  explicit Rendezvous(int world) : values_(static_cast<std::size_t>(world)), meeting_(world) {}
  transport::Exchange exchange_of(int rank);

 private:
  std::vector<std::string> values_;
  std::barrier<> meeting_;
};

/// Device memory of one rank's tensors.
class DeviceTensors {
 public:
  DeviceTensors(const Case& what, const Tensors& values);
  ~DeviceTensors();
  DeviceTensors(const DeviceTensors&) = delete;
  DeviceTensors& operator=(const DeviceTensors&) = delete;

  /// In stream order, from pinned memory: as a training would change them.
  void write(const Tensors& values, cudaStream_t stream);
  void write_input(const Tensors& values, cudaStream_t stream);
  Tensors read() const;
  executor::StreamJob job(std::shared_ptr<const plan::Plan> plan, std::uint64_t step) const;

 private:
  const Case what_;
  std::size_t bytes_ = 0;
  void* input_ = nullptr;
  void* output_ = nullptr;
  float* before_ = nullptr;
  float* after_ = nullptr;
};

/// The program's kernels: of the host's codecs (host_kernels.cpp), or those of cuda/ in the emulator.
std::unique_ptr<executor::StreamDevice> make_device();

struct Rank {
  int rank = 0;
  std::unique_ptr<executor::StreamDevice> kernels = make_device();
  transport::Exchange exchange;  ///< for further links: all ranks at once
  transport::Membership membership;
  std::unique_ptr<transport::nccl::NcclLink> link;
  std::unique_ptr<executor::StreamRun> run;
  cudaStream_t stream = nullptr;
};

/// Resets the fakes, then runs `body` on all ranks at once. After it, streams are drained and everything that
/// the ranks made is gone; what is left behind, or was misused, fails the test.
void on_devices(int world, const std::function<void(Rank&)>& body);

/// One collective by every rank, on a stream each.
std::vector<Tensors> run_on_devices(const Case& what, const std::vector<Tensors>& inputs, std::uint64_t step);

}  // namespace ferrule::testing
