// Waiting without the GIL, and without making Ctrl-C wait.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "ferrule/ferrule.hpp"

namespace ferrule::python {

/// How late a KeyboardInterrupt may be noticed.
inline constexpr std::chrono::milliseconds kSignalSlice{100};

/// Throws what a signal handler of Python's raised. Needs the GIL.
inline void check_signals() {
  if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
}

/// Until the collective is done, or `timeout` (none: the collective's own deadline) has passed: then
/// ErrorCode::timeout.
Status wait_for(const Work& work, std::optional<std::chrono::nanoseconds> timeout);

/// Runs `make` on a thread of its own, without the GIL. After a KeyboardInterrupt that thread is left to its
/// own deadline, and its result is dropped.
template <class Make>
auto run_interruptibly(Make make) {
  using Value = decltype(make());
  auto task = std::make_shared<std::packaged_task<Value()>>(std::move(make));
  std::future<Value> result = task->get_future();
  std::thread([task] { (*task)(); }).detach();
  while (true) {
    {
      const nanobind::gil_scoped_release unlocked;
      if (result.wait_for(kSignalSlice) == std::future_status::ready) break;
    }
    check_signals();
  }
  return result.get();
}

/// Seconds from Python; none stays none. Throws Failure unless it is a positive number below 292 years.
std::optional<std::chrono::nanoseconds> to_nanoseconds(std::optional<double> seconds);

}  // namespace ferrule::python
