// N ranks as threads of the test, each with a transport: what the tests of all transports stand on.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "transport/registry.hpp"

namespace ferrule::transport::testing {

/// No test waits longer than this; it is there to prove "no hang".
inline Deadline soon() { return Deadline::after(std::chrono::seconds(20)); }

/// The key-value exchange of ranks in one process.
class Board {
 public:
  explicit Board(std::int32_t size) : size_(static_cast<std::size_t>(size)) {}

  Exchange exchange(std::int32_t rank) {
    return [this, rank](std::string_view name, std::string_view mine) { return swap(rank, name, mine); };
  }

 private:
  Result<std::vector<std::string>> swap(std::int32_t rank, std::string_view name, std::string_view mine) {
    std::unique_lock lock(mutex_);
    auto& values = values_[std::string(name)];
    values[rank] = std::string(mine);
    changed_.notify_all();
    if (!changed_.wait_until(lock, soon().when(), [&] { return values.size() == size_; })) {
      return Status(ErrorCode::timeout, "exchange '" + std::string(name) + "' is incomplete");
    }
    std::vector<std::string> all;
    for (const auto& [of, value] : values) all.push_back(value);
    return all;
  }

  std::size_t size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::map<std::int32_t, std::string>> values_;
};

inline std::uint64_t new_communicator() {
  static std::atomic<std::uint64_t> next{0x1000};
  return next.fetch_add(1);
}

inline Membership membership(std::int32_t rank, std::int32_t size, std::uint64_t communicator) {
  Membership made;
  made.rank = rank;
  made.communicator = communicator;
  made.interface = "lo";
  for (std::int32_t r = 0; r < size; ++r) {
    made.peers.push_back({"host" + std::to_string(r), "same", 1000 + r, "127.0.0.1"});
  }
  return made;
}

using Connect = std::function<Result<std::unique_ptr<Transport>>(
    const Membership& membership, const Exchange& exchange, Deadline deadline)>;
/// A place where ranks wait for each other.
class Gate {
 public:
  explicit Gate(std::int32_t size) : size_(size) {}
  /// Takes part in the next meeting; its number.
  std::int64_t arrive() { return (arrived_.fetch_add(1) / size_ + 1) * size_; }
  bool open(std::int64_t target) const { return arrived_ >= target; }

 private:
  std::int64_t size_;
  std::atomic<std::int64_t> arrived_{0};
};

/// One rank of a test, with its transport. The test may destroy the transport.
struct Rank {
  std::unique_ptr<Transport> transport;
  std::int32_t rank = 0;
  std::int32_t size = 0;
  std::uint64_t communicator = 0;
  Gate* gate = nullptr;

  Send send(std::int32_t peer, std::span<const std::byte> payload) const {
    Send made;
    made.peer = peer;
    made.payload = payload;
    made.header.communicator = communicator;
    made.header.source = rank;
    made.header.payload_bytes = static_cast<std::uint32_t>(payload.size());
    return made;
  }
  Recv recv(std::int32_t peer, std::size_t bytes) const {
    Recv made;
    made.peer = peer;
    made.bytes = bytes;
    return made;
  }
  Status post(Send& one) const {
    Send* const sends[] = {&one};
    return transport->post({sends, {}});
  }
  Status post(Recv& one) const {
    Recv* const recvs[] = {&one};
    return transport->post({{}, recvs});
  }
  /// Progresses until the condition holds; the error of progress, or `timeout`, if it does not.
  Status until(const std::function<bool()>& condition) const {
    const Deadline deadline = soon();
    while (!condition()) {
      if (deadline.passed()) return {ErrorCode::timeout, "the test waited in vain"};
      const Deadline look = Deadline::after(std::chrono::milliseconds(20));
      FERRULE_RETURN_IF_ERROR(transport->progress(earlier(deadline, look)));
    }
    return {};
  }
  Status until_done(const Request& request) const {
    return until([&] { return request.done; });
  }
  /// Waits for all ranks, progressing meanwhile (a fabric may need that to move what was sent).
  void meet() const {
    const std::int64_t target = gate->arrive();
    const Deadline deadline = soon();
    while (!gate->open(target)) {
      ASSERT_FALSE(deadline.passed()) << "rank " << rank << " waited for the others in vain";
      const Deadline look = Deadline::after(std::chrono::milliseconds(1));
      if (transport == nullptr || !transport->progress(look).ok()) std::this_thread::yield();
    }
  }
  /// The same without progress.
  void meet_asleep() const {
    const std::int64_t target = gate->arrive();
    const Deadline deadline = soon();
    while (!gate->open(target)) {
      ASSERT_FALSE(deadline.passed()) << "rank " << rank << " waited for the others in vain";
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  }
};

using Body = std::function<void(Rank& rank)>;

/// Connects `size` ranks, each on a thread of its own, and runs `body` on each. A rank whose body has ended
/// goes on progressing until all have ended, so that nobody leaves early.
inline void run_ranks(const Connect& connect, std::int32_t size, const Body& body) {
  const std::uint64_t communicator = new_communicator();
  Board board(size);
  Gate gate(size);
  const auto run = [&](std::int32_t rank) {
    auto made = connect(membership(rank, size, communicator), board.exchange(rank), soon());
    EXPECT_TRUE(made.ok()) << made.status().text();
    Rank self{made.ok() ? std::move(made).value() : nullptr, rank, size, communicator, &gate};
    if (self.transport != nullptr) body(self);
    self.meet();
  };
  std::vector<std::thread> threads;
  for (std::int32_t rank = 0; rank < size; ++rank) threads.emplace_back(run, rank);
  for (std::thread& thread : threads) thread.join();
}

inline std::vector<std::byte> pattern(std::size_t bytes, std::uint32_t seed) {
  std::vector<std::byte> made(bytes);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& byte : made) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return made;
}

inline bool equal(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin());
}

}  // namespace ferrule::transport::testing
