// All-reduces in stream order against the executor for host memory: every algorithm, codec and world, bit for
// bit, residuals included.
#include <gtest/gtest.h>

#include "cuda/nccl/device_world.hpp"

namespace ferrule::testing {
namespace {

std::string compare(const Case& what, bool with_infinities = false) {
  const std::vector<Tensors> inputs = make_inputs(what, 3, with_infinities);
  const std::string found = difference(run_on_devices(what, inputs, 3), run_on_host(what, inputs, 3));
  return found.empty() ? found : what.describe() + ": " + found;
}

const char* const kCodecs[] = {"none", "int4:block=128", "int8:block=64,round=stochastic", "bf16"};

TEST(StreamAllReduce, EveryAlgorithmCodecAndWorldGivesTheBitsOfTheHost) {
  for (const collectives::AlgorithmDesc& algorithm : collectives::algorithms()) {
    for (const char* codec : kCodecs) {
      for (int world = 1; world <= 4; ++world) {
        Case what;
        what.algorithm = std::string(algorithm.name);
        what.codec = codec;
        what.world = world;
        what.count = 3001;
        what.in_place = world % 2 == 0;
        what.ranks_a_node = algorithm.uses_topology() && world == 4 ? 2 : 1;
        EXPECT_EQ(compare(what), "");
      }
    }
  }
}

TEST(StreamAllReduce, EmptyTinyAndCrookedTensors) {
  for (const char* algorithm : {"direct", "ring"}) {
    for (const std::size_t count : {0, 1, 2, 3, 127, 128, 129, 385}) {
      Case what;
      what.algorithm = algorithm;
      what.world = 3;
      what.count = count;
      EXPECT_EQ(compare(what), "");
    }
  }
}

TEST(StreamAllReduce, RawSumsOfEveryKindOfNumber) {
  for (const DType dtype : {DType::f64, DType::i32, DType::f16}) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::max}) {
      Case what;
      what.codec = "none";
      what.dtype = dtype;
      what.op = op;
      what.world = 3;
      what.feedback = false;
      what.in_place = true;
      EXPECT_EQ(compare(what), "");
    }
  }
}

TEST(StreamAllReduce, AveragesAndHalves) {
  for (const DType dtype : {DType::f16, DType::bf16}) {
    Case what;
    what.dtype = dtype;
    what.op = ReduceOp::avg;
    what.world = 3;
    EXPECT_EQ(compare(what), "");
  }
}

TEST(StreamAllReduce, InfinitiesReachAllAndNoResidual) {
  for (const char* codec : {"none", "int4:block=128", "bf16"}) {
    for (const char* algorithm : {"direct", "ring", "tree"}) {
      Case what;
      what.codec = codec;
      what.algorithm = algorithm;
      what.world = 3;
      EXPECT_EQ(compare(what, true), "");
    }
  }
}

TEST(StreamAllReduce, UnderManyOrdersOfTheStreams) {
  for (unsigned seed = 1; seed <= 6; ++seed) {
    Case what;
    what.world = 4;
    what.algorithm = seed % 2 == 0 ? "ring" : "direct";
    what.in_place = true;
    const std::vector<Tensors> inputs = make_inputs(what, seed);
    std::vector<Tensors> outputs(inputs.size());
    on_devices(what.world, [&](Rank& rank) {
      fake_cuda::shuffle(seed);
      const auto index = static_cast<std::size_t>(rank.rank);
      DeviceTensors tensors(what, inputs[index]);
      const Status status = rank.run->enqueue(tensors.job(make_plan(what, rank.rank), seed), rank.stream,
                                              Deadline::after(kLimit));
      EXPECT_TRUE(status.ok()) << status.text();
      EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
      outputs[index] = tensors.read();
    });
    EXPECT_EQ(difference(outputs, run_on_host(what, inputs, seed)), "") << seed;
  }
}

// Memory and messages of two communicators do not meet, whatever the order in which their streams run.
TEST(StreamAllReduce, TwoCommunicatorsInterleaved) {
  Case what;
  what.world = 3;
  const std::vector<Tensors> inputs[2] = {make_inputs(what, 1), make_inputs(what, 2)};
  std::vector<Tensors> outputs[2] = {std::vector<Tensors>(3), std::vector<Tensors>(3)};
  on_devices(what.world, [&](Rank& rank) {
    fake_cuda::shuffle(5);
    const auto index = static_cast<std::size_t>(rank.rank);
    auto link = transport::nccl::NcclLink::connect(rank.membership, rank.exchange, Deadline::after(kLimit));
    ASSERT_TRUE(link.ok()) << link.status().text();
    executor::StreamRun other(**link, *rank.kernels);
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    DeviceTensors first(what, inputs[0][index]);
    DeviceTensors second(what, inputs[1][index]);
    const auto plan = make_plan(what, rank.rank);
    EXPECT_TRUE(rank.run->enqueue(first.job(plan, 1), rank.stream, Deadline::after(kLimit)).ok());
    EXPECT_TRUE(other.enqueue(second.job(plan, 2), stream, Deadline::after(kLimit)).ok());
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    outputs[0][index] = first.read();
    outputs[1][index] = second.read();
    cudaStreamDestroy(stream);
  });
  EXPECT_EQ(difference(outputs[0], run_on_host(what, inputs[0], 1)), "");
  EXPECT_EQ(difference(outputs[1], run_on_host(what, inputs[1], 2)), "");
}

// Launches of direct: encode, sum, decode; one all-to-all and one all-gather. And the host never waits.
TEST(StreamAllReduce, CostsThreeKernelsAndTwoGroupsASliceAndNoHostSync) {
  Case what;
  what.world = 4;
  what.count = 4 * 128 * 8;
  what.feedback = false;
  what.slice_bytes = 1 << 20;
  const std::vector<Tensors> inputs = make_inputs(what, 1);
  std::atomic<int> ready{0};
  std::atomic<std::uint64_t> syncs{0};
  on_devices(what.world, [&](Rank& rank) {
    DeviceTensors tensors(what, inputs[static_cast<std::size_t>(rank.rank)]);
    const auto plan = make_plan(what, rank.rank);
    ASSERT_EQ(plan->slice_count(), 1U);
    ASSERT_TRUE(rank.run->prepare(tensors.job(plan, 1)).ok());
    for (++ready; ready < what.world;) std::this_thread::yield();
    const auto before = fake_cuda::counters().host_syncs;
    EXPECT_TRUE(rank.run->enqueue(tensors.job(plan, 1), rank.stream, Deadline::after(kLimit)).ok());
    syncs += fake_cuda::counters().host_syncs - before;
    for (++ready; ready < 2 * what.world;) std::this_thread::yield();
    EXPECT_EQ(fake_nccl::counters().groups, 4U);
    EXPECT_EQ(fake_nccl::counters().gathers, 4U);
    for (++ready; ready < 3 * what.world;) std::this_thread::yield();
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
    for (++ready; ready < 4 * what.world;) std::this_thread::yield();
    EXPECT_EQ(fake_cuda::counters().kernels, 12U);
    for (++ready; ready < 5 * what.world;) std::this_thread::yield();
  });
  EXPECT_EQ(syncs, 0U);
}

}  // namespace
}  // namespace ferrule::testing
