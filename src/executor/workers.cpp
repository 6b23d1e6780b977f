#include "executor/workers.hpp"

#include <fmt/format.h>

#include <system_error>

namespace ferrule::executor {
namespace {

// Looks before sleeping: a batch often follows the last one within the time of an encode.
constexpr int kLooks = 2000;

void pause_briefly() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

}  // namespace

Workers::~Workers() {
  ending_.store(true);
  batch_.fetch_add(1);
  batch_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

Status Workers::start(std::uint32_t threads) {
  try {
    for (std::uint32_t i = 1; i < threads; ++i) threads_.emplace_back([this] { work(); });
  } catch (const std::system_error& error) {
    return Status(ErrorCode::system, fmt::format("could not start worker {} of FERRULE_THREADS={}: {}",
                                                 threads_.size() + 1, threads, error.what()));
  }
  return {};
}

void Workers::run(std::size_t count, const std::function<void(std::size_t)>& task) {
  if (threads_.empty() || count <= 1) {
    for (std::size_t i = 0; i < count; ++i) task(i);
    return;
  }
  task_ = &task;
  count_ = count;
  next_.store(0, std::memory_order_relaxed);
  busy_.store(static_cast<std::uint32_t>(threads_.size()), std::memory_order_relaxed);
  batch_.fetch_add(1, std::memory_order_release);
  batch_.notify_all();
  take_tasks();
  for (int look = 0; look < kLooks && busy_.load(std::memory_order_acquire) != 0; ++look) pause_briefly();
  for (std::uint32_t busy = busy_.load(std::memory_order_acquire); busy != 0;
       busy = busy_.load(std::memory_order_acquire)) {
    busy_.wait(busy, std::memory_order_acquire);
  }
}

void Workers::work() {
  for (std::uint64_t seen = 0;;) {
    seen = wait_for_batch(seen);
    if (ending_.load(std::memory_order_relaxed)) return;
    take_tasks();
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

void Workers::take_tasks() {
  while (true) {
    const std::size_t mine = next_.fetch_add(1, std::memory_order_relaxed);
    if (mine >= count_) return;
    (*task_)(mine);
  }
}

std::uint64_t Workers::wait_for_batch(std::uint64_t seen) const {
  for (int look = 0; look < kLooks; ++look) {
    const std::uint64_t now = batch_.load(std::memory_order_acquire);
    if (now != seen) return now;
    pause_briefly();
  }
  batch_.wait(seen, std::memory_order_acquire);
  return batch_.load(std::memory_order_acquire);
}

}  // namespace ferrule::executor
