// On a device every collective gives the bits of the CPU, in the output and in the residual, wherever the
// other ranks' tensors are and whichever way the bytes go.
#include <limits>

#include "cuda/device/device_world.hpp"

namespace ferrule::testing {
namespace {

constexpr int kMostRanks = 4;

struct Way {
  const char* name;
  CommunicatorConfig config;
  OnHost on_host;
};

std::vector<Way> ways() {
  return {{"device to device", {}, nobody()},
          {"staged", staged(), nobody()},
          {"mixed", {}, odd_ranks()},
          {"mixed and staged", staged(), odd_ranks()}};
}

/// Compares all ways with the CPU, for every codec in one world.
class Bits : public DeviceTest, public ::testing::WithParamInterface<std::string> {
 protected:
  static void expect_all_ways_equal(const std::vector<Experiment>& experiments, int size) {
    std::vector<std::vector<Outcome>> expected;
    auto host = make_world(size);
    for (const Experiment& experiment : experiments) expected.push_back(run(experiment, host, everybody()));
    for (const Way& way : ways()) {
      if (size == 1 && way.on_host(1)) continue;
      auto comms = make_world(size, way.config);
      for (std::size_t i = 0; i < experiments.size(); ++i) {
        SCOPED_TRACE(experiments[i].codec + ", " + way.name + ", world " + std::to_string(size));
        ASSERT_TRUE(run(experiments[i], comms, way.on_host) == expected[i]);
      }
    }
  }
};

TEST_P(Bits, AreThoseOfTheCpuForEveryCodecAndWorld) {
  for (int size = 1; size <= kMostRanks; ++size) {
    std::vector<Experiment> experiments;
    for (const std::string& codec : all_codecs()) {
      experiments.push_back({.codec = codec, .algorithm = GetParam()});
      experiments.back().in_place = experiments.size() % 2 == 0;
    }
    expect_all_ways_equal(experiments, size);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Bits, AreThoseOfTheCpuWhereValuesAreNotFinite) {
  std::vector<Experiment> experiments;
  for (const char* codec : {"none", "bf16", "int4"}) {
    experiments.push_back({.codec = codec, .algorithm = GetParam(), .steps = 3});
    experiments.back().plant = [](int rank, unsigned step, std::vector<float>& values) {
      if (step != 1) return;
      if (rank == 0) values[0] = std::numeric_limits<float>::quiet_NaN();
      if (rank == 1) values[1500] = std::numeric_limits<float>::infinity();
      if (rank == 2) values.back() = -std::numeric_limits<float>::infinity();
    };
  }
  expect_all_ways_equal(experiments, 3);
}

INSTANTIATE_TEST_SUITE_P(Everything, Bits, ::testing::ValuesIn(all_algorithms()), word_name);

class Counts : public Bits {};

TEST_P(Counts, OfAnySize) {
  std::vector<Experiment> experiments;
  for (const std::size_t count : {1UL, 31UL, 127UL, 128UL, 129UL, 1000UL, 20000UL}) {
    experiments.push_back({.codec = "int4", .algorithm = GetParam(), .count = count, .op = ReduceOp::avg});
    experiments.push_back({.codec = "none", .algorithm = GetParam(), .count = count, .in_place = false});
  }
  expect_all_ways_equal(experiments, 3);
}

INSTANTIATE_TEST_SUITE_P(Algorithms, Counts, ::testing::Values("direct", "ring", "tree"), word_name);

class Elements : public DeviceTest {
 protected:
  /// What every rank gets of `inputs` (by rank), on the device.
  template <class T>
  static std::vector<std::vector<T>> reduce(const std::vector<std::vector<T>>& inputs, DType dtype,
                                            ReduceOp op, bool on_host) {
    auto comms = make_world(static_cast<int>(inputs.size()), staged());
    std::vector<std::vector<T>> results(inputs.size());
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      std::vector<T> values = inputs[static_cast<std::size_t>(rank)];
      AllReduceOptions options;
      options.codec = "none";
      Status status;
      if (on_host) {
        status = comm.all_reduce({values.data(), values.size(), dtype}, op, options);
      } else {
        const Stream stream;
        const DeviceBuffer buffer(values.size() * sizeof(T));
        buffer.write(values, stream.get());
        options.stream = stream.get();
        status = comm.all_reduce(TensorView(buffer.data(), values.size(), dtype).on_device(), op, options);
        values = buffer.read<T>(stream.get());
      }
      EXPECT_TRUE(status.ok()) << status.text();
      results[static_cast<std::size_t>(rank)] = values;
    });
    return results;
  }

  template <class T>
  static void expect_equal(DType dtype, T scale) {
    std::vector<std::vector<T>> inputs(3, std::vector<T>(777));
    for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
      for (std::size_t i = 0; i < inputs[rank].size(); ++i) {
        inputs[rank][i] = static_cast<T>(static_cast<T>((i * 7 + rank * 3) % 11 + 1) * scale);
      }
    }
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::min, ReduceOp::max, ReduceOp::prod}) {
      EXPECT_EQ(reduce(inputs, dtype, op, false), reduce(inputs, dtype, op, true));
    }
  }
};

TEST_F(Elements, OfEveryTypeGiveTheBitsOfTheCpu) {
  expect_equal<float>(DType::f32, 0.37F);
  expect_equal<double>(DType::f64, 0.37);
  expect_equal<std::int32_t>(DType::i32, 3);
  expect_equal<std::int64_t>(DType::i64, 3);
  expect_equal<std::uint8_t>(DType::u8, 1);
  expect_equal<std::uint16_t>(DType::f16, 0x0c01);
  expect_equal<std::uint16_t>(DType::bf16, 0x0c01);
}

}  // namespace
}  // namespace ferrule::testing
