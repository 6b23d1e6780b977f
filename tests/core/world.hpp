// Helpers for tests of whole collectives: worlds of ranks as threads, values, and what to compare them with.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "ferrule/ferrule.hpp"

namespace ferrule::testing {

/// The transport of the run: loopback, or what FERRULE_TEST_TRANSPORT says.
inline std::string test_transport() {
  const char* name = std::getenv("FERRULE_TEST_TRANSPORT");
  return name == nullptr ? "loopback" : name;
}

inline std::vector<Communicator> make_world(int size, CommunicatorConfig config = {}) {
  if (config.transport.empty()) config.transport = test_transport();
  auto comms = Communicator::local(size, config);
  EXPECT_TRUE(comms.ok()) << comms.status().text();
  if (!comms.ok()) return {};
  return std::move(comms).value();
}

/// Runs body(rank, comm) on all ranks at once and waits for them.
inline void on_all_ranks(std::vector<Communicator>& comms,
                         const std::function<void(int, Communicator&)>& body) {
  std::vector<std::thread> threads;
  threads.reserve(comms.size());
  for (std::size_t i = 0; i < comms.size(); ++i) {
    threads.emplace_back([&body, &comms, i] { body(static_cast<int>(i), comms[i]); });
  }
  for (std::thread& thread : threads) thread.join();
}

inline std::vector<std::string> split_names(const char* names) {
  std::vector<std::string> words;
  std::stringstream stream(names);
  for (std::string word; std::getline(stream, word, ',');) words.push_back(word);
  return words;
}

inline std::vector<float> random_values(std::size_t count, unsigned seed, float scale = 1.0F) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(count);
  for (float& value : values) value = normal(engine);
  return values;
}

/// One vector a rank.
using Ranks = std::vector<std::vector<float>>;

inline Ranks random_ranks(int world, std::size_t count, unsigned seed) {
  Ranks ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.push_back(random_values(count, seed * 1009U + static_cast<unsigned>(rank)));
  }
  return ranks;
}

inline void expect_identical(const Ranks& outputs) {
  for (std::size_t rank = 1; rank < outputs.size(); ++rank) {
    ASSERT_EQ(std::memcmp(outputs[rank].data(), outputs[0].data(), outputs[0].size() * sizeof(float)), 0)
        << "ranks 0 and " << rank << " hold different bits";
  }
}

/// An algorithm and codec, as test parameters.
struct Pair {
  std::string algorithm;
  std::string codec;
};

inline std::string pair_name(const ::testing::TestParamInfo<Pair>& info) {
  std::string name = info.param.algorithm + "_" + info.param.codec;
  for (char& c : name) c = std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
  return name;
}

inline std::vector<Pair> all_pairs(const std::vector<std::string>& codecs) {
  std::vector<Pair> pairs;
  for (const std::string& algorithm : split_names(ferruleAlgorithmNames())) {
    for (const std::string& codec : codecs) pairs.push_back({algorithm, codec});
  }
  return pairs;
}

inline std::vector<std::string> all_codecs() {
  std::vector<std::string> codecs = split_names(ferruleCodecNames());
  codecs.push_back("int4:round=stochastic");
  codecs.push_back("int8:block=32");
  return codecs;
}

inline std::vector<std::string> lossy_codecs() {
  std::vector<std::string> codecs = all_codecs();
  std::erase(codecs, "none");
  return codecs;
}

}  // namespace ferrule::testing
