// The pipeline with the real kernels: emulated threads, on the fake's streams.
#include <limits>

#include "cuda/device/device_world.hpp"
#include "simt/launch.hpp"

namespace ferrule::testing {
namespace {

class EmulatedTest : public DeviceTest {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    simt::set_launch_hook([](void* stream, std::function<void()> launch) {
      EXPECT_EQ(fake_cuda::enqueue_kernel(static_cast<cudaStream_t>(stream), "kernel", std::move(launch)),
                cudaSuccess);
    });
  }
  void TearDown() override {
    DeviceTest::TearDown();
    simt::set_launch_hook({});
    for (const std::string& fault : simt::take_faults()) ADD_FAILURE() << "the emulator: " << fault;
  }
};

class Emulated : public EmulatedTest, public ::testing::WithParamInterface<std::string> {};

TEST_P(Emulated, KernelsGiveTheBitsOfTheCpuInEveryAlgorithm) {
  const Experiment experiment{.codec = GetParam(), .algorithm = "", .count = 1100};
  for (const std::string& algorithm : all_algorithms()) {
    SCOPED_TRACE(algorithm);
    Experiment mine = experiment;
    mine.algorithm = algorithm;
    auto host = make_world(3);
    const std::vector<Outcome> expected = run(mine, host, everybody());
    auto direct = make_world(3);
    ASSERT_TRUE(run(mine, direct, nobody()) == expected) << "device to device";
    auto mixed = make_world(3, staged());
    ASSERT_TRUE(run(mine, mixed, odd_ranks()) == expected) << "mixed and staged";
  }
}

INSTANTIATE_TEST_SUITE_P(Codecs, Emulated,
                         ::testing::Values("none", "bf16", "int2", "int4", "int8:block=32",
                                           "int4:round=stochastic"),
                         [](const auto& parameter) { return "codec_" + std::to_string(parameter.index); });

TEST_F(EmulatedTest, ABadValueStaysOutOfTheResidual) {
  Experiment experiment{.codec = "int4", .algorithm = "direct", .count = 1100, .steps = 3};
  experiment.plant = [](int rank, unsigned step, std::vector<float>& values) {
    if (step == 1 && rank == 1) values[700] = std::numeric_limits<float>::infinity();
  };
  auto host = make_world(2);
  const std::vector<Outcome> expected = run(experiment, host, everybody());
  auto comms = make_world(2);
  EXPECT_TRUE(run(experiment, comms, nobody()) == expected);
}

}  // namespace
}  // namespace ferrule::testing
