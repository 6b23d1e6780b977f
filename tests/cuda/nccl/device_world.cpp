#include "cuda/nccl/device_world.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

namespace ferrule::testing {

transport::Exchange Rendezvous::exchange_of(int rank) {
  return [this, rank](std::string_view, std::string_view mine) -> Result<std::vector<std::string>> {
    values_[static_cast<std::size_t>(rank)] = std::string(mine);
    meeting_.arrive_and_wait();
    std::vector<std::string> all = values_;
    meeting_.arrive_and_wait();
    return all;
  };
}

// ---- tensors

DeviceTensors::DeviceTensors(const Case& what, const Tensors& values)
    : what_(what), bytes_(values.elements.size()) {
  const auto allocate = [](std::size_t bytes) {
    void* memory = nullptr;
    EXPECT_EQ(cudaMalloc(&memory, std::max<std::size_t>(bytes, 1)), cudaSuccess);
    return memory;
  };
  input_ = allocate(bytes_);
  output_ = what.in_place ? input_ : allocate(bytes_);
  before_ = static_cast<float*>(allocate(what.count * sizeof(float)));
  after_ = static_cast<float*>(allocate(what.count * sizeof(float)));
  cudaStream_t stream = nullptr;
  EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
  write(values, stream);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
  cudaStreamDestroy(stream);
}

DeviceTensors::~DeviceTensors() {
  if (output_ != input_) cudaFree(output_);
  cudaFree(input_);
  cudaFree(before_);
  cudaFree(after_);
}

void DeviceTensors::write_input(const Tensors& values, cudaStream_t stream) {
  EXPECT_EQ(cudaMemcpyAsync(input_, values.elements.data(), bytes_, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
}

void DeviceTensors::write(const Tensors& values, cudaStream_t stream) {
  write_input(values, stream);
  EXPECT_EQ(cudaMemcpyAsync(before_, values.residual.data(), what_.count * sizeof(float),
                            cudaMemcpyHostToDevice, stream),
            cudaSuccess);
}

Tensors DeviceTensors::read() const {
  Tensors values;
  values.elements.resize(bytes_);
  values.residual.resize(what_.count);
  EXPECT_EQ(cudaMemcpy(values.elements.data(), output_, bytes_, cudaMemcpyDeviceToHost), cudaSuccess);
  const std::size_t bytes = what_.count * sizeof(float);
  EXPECT_EQ(cudaMemcpy(values.residual.data(), before_, bytes, cudaMemcpyDeviceToHost), cudaSuccess);
  return values;
}

executor::StreamJob DeviceTensors::job(std::shared_ptr<const plan::Plan> plan, std::uint64_t step) const {
  executor::StreamJob job;
  job.plan = std::move(plan);
  job.topology = what_.topology();
  job.input = input_;
  job.output = output_;
  job.residual_before = what_.feedback ? before_ : nullptr;
  job.residual_after = what_.feedback ? after_ : nullptr;
  job.settle_residual = what_.feedback;
  job.seed = 42;
  job.step = step;
  return job;
}

// ---- world

void on_devices(int world, const std::function<void(Rank&)>& body) {
  fake_cuda::reset({.devices = world});
  fake_nccl::reset();
  transport::nccl::replace_library(&fake_nccl::library());
  Rendezvous rendezvous(world);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.emplace_back([&, rank] {
      ASSERT_EQ(cudaSetDevice(rank), cudaSuccess);
      Rank own;
      own.rank = rank;
      own.exchange = rendezvous.exchange_of(rank);
      own.membership.rank = rank;
      own.membership.peers.resize(static_cast<std::size_t>(world));
      auto link = transport::nccl::NcclLink::connect(own.membership, own.exchange, Deadline::after(kLimit));
      ASSERT_TRUE(link.ok()) << link.status().text();
      own.link = std::move(*link);
      own.run = std::make_unique<executor::StreamRun>(*own.link, *own.kernels);
      ASSERT_EQ(cudaStreamCreateWithFlags(&own.stream, cudaStreamNonBlocking), cudaSuccess);
      body(own);
      cudaStreamSynchronize(own.stream);
      cudaStreamDestroy(own.stream);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(fake_nccl::misuse(), "");
  EXPECT_EQ(fake_cuda::reset(), "") << "left behind";
  fake_nccl::reset();
}

std::vector<Tensors> run_on_devices(const Case& what, const std::vector<Tensors>& inputs,
                                    std::uint64_t step) {
  std::vector<Tensors> outputs(inputs.size());
  on_devices(what.world, [&](Rank& rank) {
    const auto index = static_cast<std::size_t>(rank.rank);
    DeviceTensors tensors(what, inputs[index]);
    const auto plan = make_plan(what, rank.rank);
    ASSERT_NE(plan, nullptr);
    const executor::StreamJob job = tensors.job(plan, step);
    const Status status = rank.run->enqueue(job, rank.stream, Deadline::after(kLimit));
    ASSERT_TRUE(status.ok()) << status.text();
    ASSERT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
    outputs[index] = tensors.read();
  });
  return outputs;
}

}  // namespace ferrule::testing
