// All-reduces in CUDA graphs: captured once, replayed with other inputs, and what cannot be captured.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda/nccl/device_world.hpp"

namespace ferrule::testing {
namespace {

class Graph {
 public:
  explicit Graph(cudaStream_t stream) : stream_(stream) {
    EXPECT_EQ(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  }
  ~Graph() {
    if (exec_ != nullptr) cudaGraphExecDestroy(exec_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void end() {
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream_, &graph), cudaSuccess);
    EXPECT_EQ(cudaGraphInstantiateWithFlags(&exec_, graph, 0), cudaSuccess);
    cudaGraphDestroy(graph);
  }
  void launch() { EXPECT_EQ(cudaGraphLaunch(exec_, stream_), cudaSuccess); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t exec_ = nullptr;
};

// A step of a training: the host's results go on from step to step, and so do the device's.
std::string replay(const Case& what, unsigned replays, unsigned compared) {
  std::vector<std::vector<Tensors>> inputs;  // of each compared replay; those between repeat the one before
  for (unsigned i = 0; i < compared; ++i) inputs.push_back(make_inputs(what, i));
  std::vector<std::vector<Tensors>> outputs(compared,
                                            std::vector<Tensors>(static_cast<std::size_t>(what.world)));
  const auto kept_at = [&](unsigned i) { return replays / compared * i; };
  on_devices(what.world, [&](Rank& rank) {
    const auto index = static_cast<std::size_t>(rank.rank);
    DeviceTensors tensors(what, inputs[0][index]);
    const executor::StreamJob job = tensors.job(make_plan(what, rank.rank), 0);
    ASSERT_TRUE(rank.run->prepare(job).ok());
    Graph graph(rank.stream);
    const Status status = rank.run->enqueue(job, rank.stream, Deadline::after(kLimit));
    EXPECT_TRUE(status.ok()) << status.text();
    graph.end();
    for (unsigned i = 0, next = 0; i < replays; ++i) {
      tensors.write_input(inputs[next == compared ? compared - 1 : next][index], rank.stream);
      graph.launch();
      if (next == compared || i != kept_at(next)) continue;
      EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
      outputs[next++][index] = tensors.read();
    }
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
  });
  std::vector<Tensors> state = inputs[0];
  for (unsigned i = 0, next = 0; next < compared; ++i) {
    for (std::size_t rank = 0; rank < state.size(); ++rank)
      state[rank].elements = inputs[next][rank].elements;
    state = run_on_host(what, state, 0);
    if (i != kept_at(next)) continue;
    if (std::string found = difference(outputs[next], state); !found.empty()) {
      return what.describe() + ", replay " + std::to_string(i) + ": " + found;
    }
    ++next;
  }
  return {};
}

TEST(Graphs, AThousandReplaysWithChangingInputsAndResiduals) {
  Case what;
  what.count = 260;
  what.slice_bytes = 1 << 16;
  EXPECT_EQ(replay(what, 1000, 10), "");
}

TEST(Graphs, EveryAlgorithmCanBeReplayed) {
  for (const collectives::AlgorithmDesc& algorithm : collectives::algorithms()) {
    for (const char* codec : {"none", "int4:block=128"}) {
      Case what;
      what.algorithm = std::string(algorithm.name);
      what.codec = codec;
      what.world = 4;
      what.ranks_a_node = algorithm.uses_topology() ? 2 : 1;
      what.slice_bytes = 300;
      EXPECT_EQ(replay(what, 5, 5), "");
    }
  }
}

/// The error of a capture; `prepare` first or not.
std::string refusal(const Case& what, bool prepares, bool settles = true) {
  std::string text;
  on_devices(2, [&](Rank& rank) {
    DeviceTensors tensors(what, make_inputs(what, 0)[0]);
    executor::StreamJob job = tensors.job(make_plan(what, rank.rank), 0);
    job.settle_residual = settles;
    if (prepares) {
      EXPECT_TRUE(rank.run->prepare(job).ok());
    }
    Graph graph(rank.stream);
    const Status status = rank.run->enqueue(job, rank.stream, Deadline::after(kLimit));
    EXPECT_FALSE(status.ok());
    if (rank.rank == 0) text = status.text();
    graph.end();
  });
  return text;
}

TEST(Graphs, WhatCannotBeCapturedSaysWhy) {
  Case what;
  what.codec = "int4:block=128,round=stochastic";
  EXPECT_THAT(refusal(what, true), ::testing::HasSubstr("same random bits"));
  what.codec = "int4:block=128";
  EXPECT_THAT(refusal(what, true, false), ::testing::HasSubstr("settled in place"));
  EXPECT_THAT(refusal(what, false), ::testing::HasSubstr("before the first capture"));
}

// Its memory is in a graph, so it stays where it is.
TEST(Graphs, MemoryDoesNotMoveAfterACapture) {
  on_devices(2, [&](Rank& rank) {
    Case small;
    DeviceTensors tensors(small, make_inputs(small, 0)[0]);
    const executor::StreamJob job = tensors.job(make_plan(small, rank.rank), 0);
    ASSERT_TRUE(rank.run->prepare(job).ok());
    Graph graph(rank.stream);
    EXPECT_TRUE(rank.run->enqueue(job, rank.stream, Deadline::after(kLimit)).ok());
    graph.end();
    Case large = small;
    large.count = 100'000;
    large.slice_bytes = 1 << 20;
    DeviceTensors more(large, make_inputs(large, 0)[0]);
    const executor::StreamJob larger = more.job(make_plan(large, rank.rank), 0);
    EXPECT_THAT(rank.run->prepare(larger).text(), ::testing::HasSubstr("a CUDA graph uses the memory"));
    graph.launch();
    EXPECT_EQ(cudaStreamSynchronize(rank.stream), cudaSuccess);
  });
}

}  // namespace
}  // namespace ferrule::testing
