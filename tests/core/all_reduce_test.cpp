// The all-reduce as a whole: every algorithm and codec, worlds 1 to 8, sizes that divide nothing, in and out
// of place: exact codecs give the exact sum, lossy ones stay within their documented bound, all ranks hold
// the same bits.
#include "core/world.hpp"

namespace ferrule::testing {
namespace {

/// The parameter is the algorithm.
class AllReduce : public ::testing::TestWithParam<std::string> {
 protected:
  /// Largest magnitude of each element's block, added up over ranks.
  static std::vector<double> magnitudes(const Ranks& inputs, std::size_t block) {
    std::vector<double> sums(inputs[0].size(), 0.0);
    for (const auto& input : inputs) {
      for (std::size_t begin = 0; begin < input.size(); begin += block) {
        const std::size_t end = std::min(input.size(), begin + block);
        double largest = 0.0;
        for (std::size_t i = begin; i < end; ++i) largest = std::max<double>(largest, std::fabs(input[i]));
        for (std::size_t i = begin; i < end; ++i) sums[i] += largest;
      }
    }
    return sums;
  }

  static void expect_within_bound(const std::string& spec, const Ranks& inputs,
                                  const std::vector<float>& output, ReduceOp op) {
    auto codec = Codec::create(spec);
    ASSERT_TRUE(codec.ok()) << codec.status().text();
    std::vector<double> bounds = magnitudes(inputs, codec->block());
    ASSERT_EQ(ferruleAllReduceErrorBound(codec->handle(), GetParam().c_str(), static_cast<int>(inputs.size()),
                                         ferruleFloat32, static_cast<ferruleRedOp_t>(op), bounds.data(),
                                         bounds.size(), bounds.data()),
              ferruleSuccess);
    for (std::size_t i = 0; i < output.size(); ++i) {
      double exact = 0.0;
      for (const auto& input : inputs) exact += input[i];
      if (op == ReduceOp::avg) exact /= static_cast<double>(inputs.size());
      ASSERT_LE(std::fabs(output[i] - exact), bounds[i]) << "element " << i << " of " << output.size();
    }
  }

  static std::vector<float> reduce(const std::string& spec, Communicator& comm,
                                   const std::vector<float>& input, ReduceOp op, bool in_place) {
    std::vector<float> output = input;
    AllReduceOptions options;
    options.codec = spec;
    options.algorithm = GetParam();
    options.seed = 42;
    const float* send = in_place ? output.data() : input.data();
    const Status status = comm.all_reduce(send, {output.data(), output.size()}, op, options);
    EXPECT_TRUE(status.ok()) << status.text();
    return output;
  }
};

TEST_P(AllReduce, IsWithinBoundAndIdenticalInEveryWorld) {
  for (const int world : {1, 2, 3, 4, 5, 7, 8}) {
    SCOPED_TRACE("world " + std::to_string(world));
    run_world(world, [&](int rank, Communicator& comm) {
      for (const std::size_t count : {0UL, 1UL, 3UL, 127UL, 128UL, 1000UL, 20011UL}) {
        const Ranks inputs = random_ranks(world, count, static_cast<unsigned>(count));
        const ReduceOp op = count % 2 == 0 ? ReduceOp::avg : ReduceOp::sum;
        for (const std::string& codec : all_codecs()) {
          SCOPED_TRACE(codec + ", count " + std::to_string(count));
          for (const bool in_place : {true, false}) {
            const auto output = reduce(codec, comm, inputs[static_cast<std::size_t>(rank)], op, in_place);
            expect_within_bound(codec, inputs, output, op);
            expect_identical(comm, output);
            if (HasFatalFailure()) return;
          }
        }
      }
    });
  }
}

TEST_P(AllReduce, DoesNotDependOnSlices) {
  constexpr std::size_t kCount = 9001;
  const Ranks inputs = random_ranks(3, kCount, 5);
  std::vector<std::vector<std::vector<float>>> first(3);
  for (const char* slice : {"256", "3000", "1M"}) {
    ::setenv("FERRULE_SLICE", slice, 1);
    auto comms = make_world(3);
    ::unsetenv("FERRULE_SLICE");
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      const auto r = static_cast<std::size_t>(rank);
      std::vector<std::vector<float>> outputs;
      for (const std::string& codec : all_codecs()) {
        outputs.push_back(reduce(codec, comm, inputs[r], ReduceOp::sum, true));
      }
      if (first[r].empty()) first[r] = outputs;
      ASSERT_EQ(first[r], outputs) << "slices of " << slice;
    });
  }
}

TEST_P(AllReduce, LargeTensorsKeepManySlicesInFlight) {
  constexpr std::size_t kCount = 600011;
  const Ranks inputs = random_ranks(4, kCount, 9);
  run_world(4, [&](int rank, Communicator& comm) {
    for (const char* codec : {"none", "int4", "int8:round=stochastic", "fp16"}) {
      const auto output = reduce(codec, comm, inputs[static_cast<std::size_t>(rank)], ReduceOp::sum, true);
      if (rank == 0) expect_within_bound(codec, inputs, output, ReduceOp::sum);
      expect_identical(comm, output);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Everything, AllReduce, ::testing::ValuesIn(all_algorithms()), word_name);

// Integer values small enough that every partial sum is exact: then every algorithm must give the very sum.
TEST(AllReduceExact, RawSumsOfIntegersAreExact) {
  auto comms = make_world(5);
  for (const std::string& algorithm : split_names(ferruleAlgorithmNames())) {
    std::vector<std::vector<float>> data(5, std::vector<float>(4099));
    for (std::size_t rank = 0; rank < 5; ++rank) {
      for (std::size_t i = 0; i < data[rank].size(); ++i) data[rank][i] = static_cast<float>(i % 97 + rank);
    }
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      AllReduceOptions options;
      options.algorithm = algorithm;
      auto& mine = data[static_cast<std::size_t>(rank)];
      EXPECT_TRUE(comm.all_reduce({mine.data(), mine.size()}, ReduceOp::sum, options).ok());
    });
    for (const auto& output : data) {
      for (std::size_t i = 0; i < output.size(); ++i) {
        ASSERT_EQ(output[i], static_cast<float>(5 * (i % 97) + 10)) << algorithm << " element " << i;
      }
    }
  }
}

// Counts 0 to 300 on every small world: nothing divides anything.
TEST(AllReduceExact, EveryCountUpTo300) {
  for (const int world : {2, 3, 5}) {
    auto comms = make_world(world);
    on_all_ranks(comms, [&](int rank, Communicator& comm) {
      for (std::size_t count = 0; count <= 300; ++count) {
        std::vector<std::int32_t> data(count, rank + 1);
        ASSERT_TRUE(comm.all_reduce({data.data(), count}).ok());
        for (const std::int32_t value : data) ASSERT_EQ(value, world * (world + 1) / 2) << "count " << count;
      }
    });
  }
}

}  // namespace
}  // namespace ferrule::testing
