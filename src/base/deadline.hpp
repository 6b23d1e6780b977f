// A point in time after which waiting is an error. Every wait in Ferrule takes one.
#pragma once

#include <algorithm>
#include <chrono>

namespace ferrule {

class Deadline {
 public:
  using Clock = std::chrono::steady_clock;

  explicit Deadline(Clock::time_point when) : when_(when) {}
  static Deadline after(std::chrono::nanoseconds duration) {
    const auto now = Clock::now();
    const auto room = Clock::time_point::max() - now;
    return Deadline(duration < room ? now + std::chrono::duration_cast<Clock::duration>(duration)
                                    : Clock::time_point::max());
  }
  static Deadline never() { return Deadline(Clock::time_point::max()); }

  Clock::time_point when() const { return when_; }
  bool passed() const { return Clock::now() >= when_; }
  /// Time left, zero when passed.
  std::chrono::nanoseconds left() const {
    return std::max<std::chrono::nanoseconds>(when_ - Clock::now(), std::chrono::nanoseconds::zero());
  }
  friend Deadline earlier(Deadline a, Deadline b) { return a.when_ < b.when_ ? a : b; }

 private:
  Clock::time_point when_;
};

}  // namespace ferrule
