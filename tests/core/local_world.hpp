// A world of ranks in this process for tests: each rank's body runs in a thread of its own.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "ferrule/ferrule.hpp"

namespace ferrule::testing {

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
  for (std::size_t i = 0; i < comms.size(); ++i) {
    threads.emplace_back([&body, &comms, i] { body(static_cast<int>(i), comms[i]); });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace ferrule::testing
