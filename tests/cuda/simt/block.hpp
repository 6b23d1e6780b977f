// One block of a grid: its threads as fibers, what each waits for, and who runs next.
//
// A thread runs until it reaches an operation that it must do together with others (a vote, a shuffle, a
// barrier) and waits there; a seeded random choice says who goes on. Nothing else orders threads, not even
// those of one warp, so a kernel that lacks a barrier finds its shared memory unwritten, or overwritten.
//
// What CUDA leaves undefined is a fault here, which ends the launch and names file, line and threads:
//   * lanes of a mask that meet in different operations, with different masks, or have left the kernel;
//   * a mask without the lane that uses it, or with lanes that do not exist;
//   * threads of a block that meet at different barriers, or of which some have left;
//   * nobody can go on (deadlock), or the launch takes more than Options::most_switches switches.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "simt/fiber.hpp"

namespace simt {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

struct Place {
  const char* file = "";
  int line = 0;
  std::string text() const;
};

enum class Meeting : std::uint8_t { sync, shuffle, vote, reduce };

/// What a lane brings to a meeting of its warp, and takes home.
struct Visit {
  Meeting meeting = Meeting::sync;
  unsigned mask = 0;
  Place place;
  std::uint64_t value = 0;
  unsigned source = 0;  ///< shuffle: the lane that is asked
  unsigned kind = 0;    ///< reduce: which operation
  std::uint64_t result = 0;
};

/// Small, fast, and the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}
  std::uint64_t next();
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(next() % bound); }

 private:
  std::uint64_t state_;
};

struct Options {
  std::uint64_t seed = 0;
  std::uint64_t most_switches = 200'000'000;  ///< of a launch: the watchdog of loops that wait for others
};

/// Thrown where a fault ends a launch.
struct Fault {
  std::string text;
};

class Block {
 public:
  static constexpr unsigned kLanes = 32;
  static constexpr unsigned kMostThreads = 1024;

  Block(FiberPool& fibers, unsigned threads, const Options& options);

  /// Runs the kernel for block `index` of a grid; throws Fault.
  void run(unsigned index, unsigned blocks, const std::function<void()>& kernel);

  // What the threads call.
  void meet(Visit& visit);
  /// Returns the number of threads that came with `vote` set.
  unsigned barrier(Place place, bool vote);
  void yield();
  void* shared(const void* key, std::size_t bytes, std::size_t alignment);
  Random& random() { return random_; }

  unsigned thread() const { return current_; }
  unsigned threads() const { return threads_; }
  unsigned index() const { return index_; }
  unsigned blocks() const { return blocks_; }

  /// The block that this OS thread is running.
  static Block*& running() { return running_; }

 private:
  enum class State : std::uint8_t { ready, meeting, barrier, left };
  struct Thread {
    State state = State::ready;
    Visit* visit = nullptr;
    Place place;
    bool vote = false;
  };
  enum class Order : std::uint8_t { random, forwards, backwards };

  void schedule();
  std::size_t choose();
  void body(std::size_t thread, const std::function<void()>& kernel);
  void wait();
  void wake(unsigned thread);
  [[noreturn]] void fail(const std::string& what);

  bool all_have_come(const Visit& visit, unsigned first);
  void check_lane(const Visit& visit, unsigned thread);
  void complete_meeting(const Visit& visit, unsigned first);
  void check_barrier();
  void leave();
  std::string describe(unsigned thread) const;
  std::string waiting_threads() const;

  inline static thread_local Block* running_ = nullptr;
  FiberPool& fibers_;
  unsigned threads_;
  Random random_;
  std::uint64_t switches_left_;
  unsigned index_ = 0;
  unsigned blocks_ = 0;
  unsigned current_ = 0;
  Order order_ = Order::random;
  std::vector<Thread> states_;
  std::vector<unsigned> ready_;
  unsigned arrived_ = 0;
  unsigned left_ = 0;
  unsigned votes_ = 0;
  std::string fault_;
  std::map<const void*, std::unique_ptr<std::byte[]>> shared_;
};

}  // namespace simt
