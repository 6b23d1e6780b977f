// Threads that help the owner of a transport with encodes and decodes.
//
// A batch of tasks is shared out one by one; the caller works along and returns when all are done. Idle
// workers look for a new batch for some microseconds, then sleep.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule::executor {

/// Used by one thread at a time. Tasks must not throw.
class Workers {
 public:
  Workers() = default;
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// `threads` counts the caller: 1 starts none. Once only.
  Status start(std::uint32_t threads);
  std::uint32_t threads() const { return static_cast<std::uint32_t>(threads_.size()) + 1; }
  /// task(0) ... task(count - 1), in any order and at once.
  void run(std::size_t count, const std::function<void(std::size_t)>& task);

 private:
  void work();
  void take_tasks();
  std::uint64_t wait_for_batch(std::uint64_t seen) const;

  std::vector<std::thread> threads_;
  // Written before `batch_` moves on, read after: the batch number orders them.
  const std::function<void(std::size_t)>* task_ = nullptr;
  std::size_t count_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<std::uint64_t> batch_{0};
  std::atomic<std::uint32_t> busy_{0};  ///< workers that have not finished the batch
  std::atomic<bool> ending_{false};
};

}  // namespace ferrule::executor
