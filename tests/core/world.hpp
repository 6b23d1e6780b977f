// Helpers for tests of whole collectives: worlds of ranks as threads, values, and what to compare them with.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "ferrule/ferrule.hpp"

namespace ferrule::testing {

/// Ranks as threads of this process, over loopback.
inline std::vector<Communicator> make_world(int size, const CommunicatorConfig& config = {}) {
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

using RankBody = std::function<void(int rank, Communicator& comm)>;

/// The body of one rank in a process of its own; does not return.
[[noreturn]] inline void be_rank(int rank, int size, const std::string& place, const RankBody& body) {
  CommunicatorConfig config;
  config.transport = "ucx";
  auto comm = Communicator::connect(rank, size, place, config);
  EXPECT_TRUE(comm.ok()) << comm.status().text();
  if (comm.ok()) body(rank, *comm);
  const bool failed = ::testing::Test::HasFailure();
  if (comm.ok()) auto ended = std::move(comm).value();  // leaves in an orderly way
  std::fflush(nullptr);
  ::_exit(failed ? 1 : 0);
}

/// Runs `body` on every rank of a new world: threads over loopback, or, with TEST_TRANSPORT=ucx,
/// processes.
inline void run_world(int size, const RankBody& body) {
  if (std::getenv("TEST_TRANSPORT") == nullptr) {
    auto comms = make_world(size);
    ASSERT_EQ(comms.size(), static_cast<std::size_t>(size));
    return on_all_ranks(comms, body);
  }
  char place[] = "/tmp/ferrule-test-XXXXXX";
  ASSERT_NE(::mkdtemp(place), nullptr);
  std::vector<pid_t> ranks;
  std::fflush(nullptr);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) be_rank(rank, size, std::string("file://") + place + "/meet", body);
    ranks.push_back(child);
  }
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(ranks[rank], &status, 0), ranks[rank]);
    EXPECT_EQ(status, 0) << "rank " << rank << " of " << size << " failed";
  }
  std::filesystem::remove_all(place);
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

/// What every rank puts in: any rank can make all of them.
using Ranks = std::vector<std::vector<float>>;

inline Ranks random_ranks(int world, std::size_t count, unsigned seed) {
  Ranks ranks;
  for (int rank = 0; rank < world; ++rank) {
    ranks.push_back(random_values(count, seed * 1009U + static_cast<unsigned>(rank)));
  }
  return ranks;
}

/// All ranks hold the same bits: their hashes have the same minimum and maximum.
inline void expect_identical(Communicator& comm, const std::vector<float>& mine) {
  std::int64_t hash = 1469598103934665603;
  for (const float value : mine) {
    std::uint32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    hash = static_cast<std::int64_t>((static_cast<std::uint64_t>(hash) ^ bits) * 1099511628211U);
  }
  std::int64_t low = hash;
  std::int64_t high = hash;
  ASSERT_TRUE(comm.all_reduce({&low, 1}, ReduceOp::min).ok());
  ASSERT_TRUE(comm.all_reduce({&high, 1}, ReduceOp::max).ok());
  ASSERT_EQ(low, high) << "ranks hold different bits";
}

inline std::vector<std::string> all_algorithms() { return split_names(ferruleAlgorithmNames()); }

/// For tests whose parameter is a word.
inline std::string word_name(const ::testing::TestParamInfo<std::string>& info) { return info.param; }

inline std::vector<std::string> all_codecs() {
  std::vector<std::string> codecs = split_names(ferruleCodecNames());
  codecs.push_back("int4:round=stochastic");
  codecs.push_back("int8:block=32");
  codecs.push_back("topk:k=30,block=256,value=int8");
  return codecs;
}

inline std::vector<std::string> lossy_codecs() {
  std::vector<std::string> codecs = all_codecs();
  std::erase(codecs, "none");
  return codecs;
}

}  // namespace ferrule::testing
