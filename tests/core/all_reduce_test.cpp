// The all-reduce as a whole: every algorithm and codec, worlds 1 to 8, sizes that divide nothing, in and out
// of place: exact codecs give the exact sum, lossy ones stay within their documented bound, all ranks hold
// the same bits.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <sstream>

#include "core/local_world.hpp"

namespace ferrule::testing {
namespace {

std::vector<std::string> split_names(const char* names) {
  std::vector<std::string> words;
  std::stringstream stream(names);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

std::vector<float> random_values(std::size_t count, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

struct Case {
  std::string algorithm;
  std::string codec;
  int world;
};

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  std::string name = info.param.algorithm + "_" + info.param.codec + "_" + std::to_string(info.param.world);
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

std::vector<Case> all_cases() {
  std::vector<std::string> codecs = split_names(ferruleCodecNames());
  codecs.push_back("int4:round=stochastic");
  codecs.push_back("int8:block=32");
  std::vector<Case> cases;
  for (const std::string& algorithm : split_names(ferruleAlgorithmNames())) {
    for (const std::string& codec : codecs) {
      for (const int world : {1, 2, 3, 4, 5, 7, 8}) cases.push_back({algorithm, codec, world});
    }
  }
  return cases;
}

class AllReduce : public ::testing::TestWithParam<Case> {
 protected:
  // Largest magnitude of each element's block, added up over ranks.
  static std::vector<double> magnitudes(const std::vector<std::vector<float>>& inputs, std::size_t block) {
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
};

TEST_P(AllReduce, SumIsWithinBoundAndIdentical) {
  const Case& param = GetParam();
  auto comms = make_world(param.world);
  auto codec = Codec::create(param.codec);
  ASSERT_TRUE(codec.ok()) << codec.status().text();
  for (const std::size_t count : {0UL, 1UL, 3UL, 127UL, 128UL, 1000UL, 70001UL}) {
    for (const bool in_place : {true, false}) {
      std::vector<std::vector<float>> inputs;
      for (int rank = 0; rank < param.world; ++rank) {
        inputs.push_back(
            random_values(count, static_cast<unsigned>(rank) * 7919U + static_cast<unsigned>(count)));
      }
      std::vector<std::vector<float>> outputs = inputs;
      on_all_ranks(comms, [&](int rank, Communicator& comm) {
        AllReduceOptions options;
        options.codec = param.codec;
        options.algorithm = param.algorithm;
        options.seed = 42;
        auto& out = outputs[static_cast<std::size_t>(rank)];
        const auto& in = inputs[static_cast<std::size_t>(rank)];
        const TensorView view(out.data(), count);
        const Status status = in_place ? comm.all_reduce(view, ReduceOp::sum, options)
                                       : comm.all_reduce(in.data(), view, ReduceOp::sum, options);
        EXPECT_TRUE(status.ok()) << status.text();
      });
      if (count == 0) continue;
      std::vector<double> bounds = magnitudes(inputs, codec->block());
      ASSERT_EQ(ferruleAllReduceErrorBound(codec->handle(), param.algorithm.c_str(), param.world,
                                           ferruleFloat32, ferruleSum, bounds.data(), count, bounds.data()),
                ferruleSuccess);
      for (std::size_t i = 0; i < count; ++i) {
        double exact = 0.0;
        for (const auto& input : inputs) exact += input[i];
        ASSERT_LE(std::fabs(outputs[0][i] - exact), bounds[i]) << "element " << i << " of " << count;
      }
      for (const auto& output : outputs) {
        ASSERT_EQ(std::memcmp(output.data(), outputs[0].data(), count * sizeof(float)), 0) << "ranks differ";
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Everything, AllReduce, ::testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace ferrule::testing
