#include "simt/launch.hpp"

#include <atomic>
#include <mutex>
#include <numeric>
#include <string_view>
#include <utility>

namespace simt {
namespace {

struct Shared {
  std::mutex mutex;
  LaunchHook hook;
  std::vector<std::string> faults;
  std::uint64_t seed = 0;
  std::uint64_t launches = 0;
  std::string removed_file;
  std::atomic<int> removed_line{0};  ///< 0: none
  std::atomic<std::uint64_t> passed{0};
};

Shared& shared() {
  static Shared state;
  return state;
}

FiberPool& pool() {
  thread_local FiberPool fibers;
  return fibers;
}

}  // namespace

void run(const Shape& shape, const std::function<void()>& kernel, const Options& options) {
  Random random(options.seed);
  std::vector<unsigned> order(shape.blocks);
  std::iota(order.begin(), order.end(), 0u);
  for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (const unsigned index : order) {
    Options of_block = options;
    of_block.seed = random.next();
    Block(pool(), shape.threads, of_block).run(index, shape.blocks, kernel);
  }
}

std::string fault_of(const Shape& shape, const std::function<void()>& kernel, const Options& options) {
  try {
    run(shape, kernel, options);
  } catch (const Fault& fault) {
    return fault.text;
  }
  return {};
}

void set_launch_hook(LaunchHook hook) {
  const std::scoped_lock lock(shared().mutex);
  shared().hook = std::move(hook);
}

void set_seed(std::uint64_t seed) {
  const std::scoped_lock lock(shared().mutex);
  shared().seed = seed;
  shared().launches = 0;
}

void enqueue(void* stream, const Shape& shape, std::function<void()> kernel) {
  Options options;
  LaunchHook hook;
  {
    const std::scoped_lock lock(shared().mutex);
    options.seed = Random(shared().seed * 1'000'003 + shared().launches++).next();
    hook = shared().hook;
  }
  auto launch = [shape, options, kernel = std::move(kernel)] {
    std::string fault = fault_of(shape, kernel, options);
    if (fault.empty()) return;
    const std::scoped_lock lock(shared().mutex);
    shared().faults.push_back(std::move(fault));
  };
  if (hook) {
    hook(stream, std::move(launch));
  } else {
    launch();
  }
}

std::vector<std::string> take_faults() {
  const std::scoped_lock lock(shared().mutex);
  return std::exchange(shared().faults, {});
}

void remove_barriers_at(const std::string& file, int line) {
  shared().removed_file = file;
  shared().passed = 0;
  shared().removed_line = file.empty() ? 0 : line;
}

std::uint64_t passed_removed_barriers() { return shared().passed; }

bool is_removed(const Place& place) {
  if (place.line != shared().removed_line) return false;
  if (!std::string_view(place.file).ends_with(shared().removed_file)) return false;
  ++shared().passed;
  return true;
}

std::uint64_t launches() {
  const std::scoped_lock lock(shared().mutex);
  return shared().launches;
}

}  // namespace simt
