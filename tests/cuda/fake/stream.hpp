// A stream: a thread that executes a queue of operations, and what others wait for.
//
// No operation takes a lock that streams share, so that ThreadSanitizer sees no order that the program has
// not asked for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

namespace fake_cuda {

/// A point in a stream that has been reached, or not yet.
class Completion {
 public:
  void finish();
  bool done() const;
  /// False if the stream has been told to give up.
  bool wait(const std::atomic<bool>& give_up) const;
  /// For the host: after a minute, says what all streams do, and aborts the process.
  void wait_on_host(const char* caller) const;
  double seconds() const;  ///< when it was reached, on a clock of its own

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  double seconds_ = 0;
};

struct Operation {
  enum class Kind : std::uint8_t {
    kernel,
    copy,
    memory,  ///< poisons what is allocated or freed in stream order
    host_function,
    external,
    mark,  ///< `completion` is reached
    wait,  ///< for `completion`
  };
  Kind kind = Kind::kernel;
  std::string name;
  std::function<void()> run;
  std::shared_ptr<Completion> completion;
};

class Stream {
 public:
  Stream(int number, int device, bool blocking);
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void push(Operation operation);
  /// A completion that is reached when all that is queued now has been done.
  std::shared_ptr<Completion> mark();
  void wait_for(std::shared_ptr<Completion> completion);
  bool idle() const;
  void set_held(bool held);
  /// No more operations come; the thread ends after the last one.
  void close();
  std::string describe() const;
  int device() const { return device_; }
  int number() const { return number_; }
  /// Ordered with the legacy default stream.
  bool blocking() const { return blocking_; }

 private:
  void work();
  void execute(const Operation& operation);
  void pause();

  const int number_;
  const int device_;
  const bool blocking_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Operation> queue_;
  std::string running_;
  bool held_ = false;
  bool closed_ = false;
  bool ended_ = false;  ///< closed, and nothing left to do
  std::uint64_t random_ = 0;
  std::thread thread_;
};

/// True on a stream's thread while it executes a host function, in which CUDA may not be called.
bool in_host_function();
/// Set while nothing more shall run: a broken device, the end of the world.
std::atomic<bool>& giving_up();
void set_shuffle_seed(std::uint64_t seed);
std::uint64_t shuffle_seed();
/// splitmix64: the fake's only source of randomness.
std::uint64_t next_random(std::uint64_t& state);

}  // namespace fake_cuda
