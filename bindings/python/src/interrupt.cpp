#include "interrupt.hpp"

#include <algorithm>

#include "errors.hpp"

namespace nb = nanobind;

namespace ferrule::python {

namespace {

using Clock = std::chrono::steady_clock;

/// One slice. Says nothing when the slice has passed and the collective goes on.
std::optional<Status> wait_slice(const Work& work, std::chrono::nanoseconds slice) {
  const nb::gil_scoped_release unlocked;
  // Asked first: a timeout of a collective that was done before is its result, not the end of our slice.
  const bool was_done = work.done();
  Status status = work.wait(slice);
  if (!was_done && status.code() == ErrorCode::timeout) return std::nullopt;
  return status;
}

}  // namespace

Status wait_for(const Work& work, std::optional<std::chrono::nanoseconds> timeout) {
  const auto start = Clock::now();
  while (true) {
    std::chrono::nanoseconds slice = kSignalSlice;
    if (timeout) slice = std::clamp<std::chrono::nanoseconds>(start + *timeout - Clock::now(), {}, slice);
    if (auto status = wait_slice(work, slice)) return *status;
    check_signals();
    if (timeout && Clock::now() - start >= *timeout && !work.done()) {
      return {ErrorCode::timeout, "the collective was not done within the time given to wait(); it goes on"};
    }
  }
}

std::optional<std::chrono::nanoseconds> to_nanoseconds(std::optional<double> seconds) {
  if (!seconds) return std::nullopt;
  if (!(*seconds > 0 && *seconds < 9.2e9)) {
    fail(ErrorCode::invalid_argument,
         "timeout is " + std::to_string(*seconds) + "; it must be a positive number of seconds, or None");
  }
  const auto whole =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(*seconds));
  return std::max(whole, std::chrono::nanoseconds(1));  // 0 would mean "the default"
}

}  // namespace ferrule::python
