// All-reduces in stream order with the kernels of cuda/, in the emulator: the bits of the host, and replays.
#include <gtest/gtest.h>

#include "cuda/nccl/device_world.hpp"
#include "cuda/stream_kernels.hpp"
#include "simt/launch.hpp"

namespace ferrule::testing {

std::unique_ptr<executor::StreamDevice> make_device() { return std::make_unique<cuda::StreamKernels>(); }

namespace {

class EmulatedStreams : public ::testing::Test {
 protected:
  void SetUp() override {
    simt::set_launch_hook([](void* stream, std::function<void()> launch) {
      const cudaError_t error =
          fake_cuda::enqueue_kernel(static_cast<cudaStream_t>(stream), "kernel", std::move(launch));
      EXPECT_EQ(error, cudaSuccess);
    });
  }
  void TearDown() override {
    simt::set_launch_hook({});
    for (const std::string& fault : simt::take_faults()) ADD_FAILURE() << "the emulator: " << fault;
  }
};

TEST_F(EmulatedStreams, EveryAlgorithmGivesTheBitsOfTheHost) {
  for (const collectives::AlgorithmDesc& algorithm : collectives::algorithms()) {
    for (const char* codec : {"none", "int4:block=128", "bf16"}) {
      Case what;
      what.algorithm = std::string(algorithm.name);
      what.codec = codec;
      what.world = 3;
      what.count = 701;
      const std::vector<Tensors> inputs = make_inputs(what, 2, true);
      EXPECT_EQ(difference(run_on_devices(what, inputs, 2), run_on_host(what, inputs, 2)), "")
          << what.describe();
    }
  }
}

TEST_F(EmulatedStreams, AGraphIsReplayed) {
  Case what;
  what.count = 300;
  what.slice_bytes = 1 << 16;
  const std::vector<Tensors> inputs = make_inputs(what, 2);
  std::vector<Tensors> outputs(inputs.size());
  on_devices(what.world, [&](Rank& rank) {
    const auto index = static_cast<std::size_t>(rank.rank);
    DeviceTensors tensors(what, inputs[index]);
    const executor::StreamJob job = tensors.job(make_plan(what, rank.rank), 2);
    ASSERT_TRUE(rank.run->prepare(job).ok());
    ASSERT_EQ(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
    EXPECT_TRUE(rank.run->enqueue(job, rank.stream, Deadline::after(kLimit)).ok());
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(rank.stream, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiateWithFlags(&exec, graph, 0), cudaSuccess);
    for (int i = 0; i < 3; ++i) EXPECT_EQ(cudaGraphLaunch(exec, rank.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
    outputs[index] = tensors.read();
    cudaGraphExecDestroy(exec);
    cudaGraphDestroy(graph);
  });
  std::vector<Tensors> state = inputs;
  for (int i = 0; i < 3; ++i) {
    for (std::size_t rank = 0; rank < state.size(); ++rank) state[rank].elements = inputs[rank].elements;
    state = run_on_host(what, state, 2);
  }
  EXPECT_EQ(difference(outputs, state), "");
}

}  // namespace
}  // namespace ferrule::testing
