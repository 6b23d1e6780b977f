// Ranks whose tensors are on the (fake) device: buffers, streams, and the same collective on the CPU to
// compare with.
#pragma once

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "control.hpp"
#include "core/world.hpp"
#include "cuda/backend/runtime.hpp"
#include "executor/backend.hpp"

namespace ferrule::testing {

/// A new machine and a new runtime for each test; nothing of CUDA's may be left over at its end.
class DeviceTest : public ::testing::Test {
 protected:
  void SetUp() override { begin({}); }
  void begin(const fake_cuda::Machine& machine) {
    executor::set_device_runtime(nullptr);
    runtime_ = nullptr;
    fake_cuda::reset(machine);
    runtime_ = cuda::make_runtime();
    executor::set_device_runtime(runtime_.get());
  }
  void TearDown() override {
    executor::set_device_runtime(nullptr);
    runtime_ = nullptr;
    const std::string left = fake_cuda::reset();
    EXPECT_TRUE(broken_ || left.empty()) << "left behind: " << left;
  }
  bool broken_ = false;  ///< the device was broken on purpose: CUDA cannot free then

 private:
  std::unique_ptr<executor::DeviceRuntime> runtime_;
};

class Stream {
 public:
  Stream() { EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess); }
  ~Stream() { static_cast<void>(cudaStreamDestroy(stream_)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

/// Elements on the device. What is written and read is in the order of the stream.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes) : bytes_(bytes) {
    EXPECT_EQ(cudaMalloc(&data_, bytes == 0 ? 1 : bytes), cudaSuccess);
  }
  ~DeviceBuffer() { static_cast<void>(cudaFree(data_)); }
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  void* data() const { return data_; }
  float* floats() const { return static_cast<float*>(data_); }
  /// By a kernel, so that the host need not wait.
  template <class T>
  void write(const std::vector<T>& values, cudaStream_t stream) const {
    void* to = data_;
    EXPECT_EQ(
        fake_cuda::enqueue_kernel(
            stream, "fill", [values, to] { std::memcpy(to, values.data(), values.size() * sizeof(T)); }),
        cudaSuccess);
  }
  template <class T>
  std::vector<T> read(cudaStream_t stream) const {
    std::vector<T> values(bytes_ / sizeof(T));
    EXPECT_EQ(cudaMemcpyAsync(values.data(), data_, bytes_, cudaMemcpyDeviceToHost, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    return values;
  }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

inline std::vector<float> read_residual(const Residual& residual, std::size_t count) {
  std::vector<float> values(count);
  const Status status = residual.read(values);
  EXPECT_TRUE(status.ok()) << status.text();
  return values;
}

template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

/// What one rank has after some steps.
struct Outcome {
  std::vector<std::vector<float>> outputs;  ///< by step
  std::vector<float> residual;

  bool operator==(const Outcome& other) const {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!same_bits(outputs[i], other.outputs[i])) return false;
    }
    return same_bits(residual, other.residual);
  }
};

/// One experiment: the inputs are a function of rank and step.
struct Experiment {
  std::string codec = "int4";
  std::string algorithm = "direct";
  std::size_t count = 3001;
  unsigned steps = 2;
  bool in_place = true;
  ReduceOp op = ReduceOp::sum;
  std::function<void(int rank, unsigned step, std::vector<float>& values)> plant =
      nullptr;  ///< changes inputs

  std::vector<float> input(int rank, unsigned step) const {
    std::vector<float> values = random_values(count, step * 1009U + static_cast<unsigned>(rank));
    if (plant) plant(rank, step, values);
    return values;
  }
  AllReduceOptions options(const Residual& residual, unsigned step) const {
    AllReduceOptions options;
    options.codec = codec;
    options.algorithm = algorithm;
    options.residual = &residual;
    options.seed = 7;
    options.step = step;
    return options;
  }
};

inline Outcome run_on_host(const Experiment& experiment, int rank, Communicator& comm) {
  Outcome outcome;
  const Residual residual = Residual::create(experiment.count).value();
  for (unsigned step = 0; step < experiment.steps; ++step) {
    std::vector<float> values = experiment.input(rank, step);
    const Status status =
        comm.all_reduce({values.data(), values.size()}, experiment.op, experiment.options(residual, step));
    EXPECT_TRUE(status.ok()) << status.text();
    outcome.outputs.push_back(values);
  }
  outcome.residual = read_residual(residual, experiment.count);
  return outcome;
}

inline Outcome run_on_device(const Experiment& experiment, int rank, Communicator& comm) {
  Outcome outcome;
  const Stream stream;
  const Residual residual = Residual::create_on_device(experiment.count).value();
  const DeviceBuffer input(experiment.count * sizeof(float));
  const DeviceBuffer output(experiment.count * sizeof(float));
  const DeviceBuffer& result = experiment.in_place ? input : output;
  for (unsigned step = 0; step < experiment.steps; ++step) {
    input.write(experiment.input(rank, step), stream.get());
    AllReduceOptions options = experiment.options(residual, step);
    options.stream = stream.get();
    const Status status = comm.all_reduce(
        input.data(), TensorView(result.floats(), experiment.count).on_device(), experiment.op, options);
    EXPECT_TRUE(status.ok()) << status.text();
    outcome.outputs.push_back(result.read<float>(stream.get()));
  }
  outcome.residual = read_residual(residual, experiment.count);
  return outcome;
}

using OnHost = std::function<bool(int rank)>;
inline OnHost nobody() {
  return [](int) { return false; };
}
inline OnHost everybody() {
  return [](int) { return true; };
}
inline OnHost odd_ranks() {
  return [](int rank) { return rank % 2 == 1; };
}

/// Outcomes by rank. `fault`: e.g. one that never comes, behind which no device memory is sent.
inline std::vector<Outcome> run(const Experiment& experiment, std::vector<Communicator>& comms,
                                const OnHost& on_host) {
  std::vector<Outcome> outcomes(comms.size());
  on_all_ranks(comms, [&](int rank, Communicator& comm) {
    outcomes[static_cast<std::size_t>(rank)] =
        on_host(rank) ? run_on_host(experiment, rank, comm) : run_on_device(experiment, rank, comm);
  });
  return outcomes;
}

/// Wire bytes go through pinned host memory, as over any network.
inline CommunicatorConfig staged() {
  CommunicatorConfig config;
  config.fault = "drop:nth=1000000000";
  return config;
}

}  // namespace ferrule::testing
