// Launching kernels in the emulator.
//
// run() is one launch, here and now. enqueue() is what cuda/platform.hpp calls: it hands the launch to a
// hook, so that a fake of the CUDA runtime can put it on its own streams; without one it runs at once. A
// fault of a launch that was enqueued is kept, because nobody may be there to catch it: tests end with
// take_faults().
//
// Any number of OS threads may run launches at the same time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "simt/block.hpp"

namespace simt {

struct Shape {
  unsigned blocks = 1;
  unsigned threads = 32;
};

/// Runs `kernel` for every thread of the grid, blocks in a random order. Throws Fault.
void run(const Shape& shape, const std::function<void()>& kernel, const Options& options);
/// The same; the text of the fault, or "".
std::string fault_of(const Shape& shape, const std::function<void()>& kernel, const Options& options = {});

using LaunchHook = std::function<void(void* stream, std::function<void()> launch)>;
/// An empty hook: launches run at once. Set it while no launch is under way.
void set_launch_hook(LaunchHook hook);
/// Schedules of the launches to come: the n-th takes a seed made of this one and n.
void set_seed(std::uint64_t seed);
void enqueue(void* stream, const Shape& shape, std::function<void()> kernel);
/// The faults since the last call, of all threads.
std::vector<std::string> take_faults();
/// From now on the barriers (__syncthreads, __syncwarp) at this line do nothing, as if they were not there;
/// an empty file: all work again. Set it while no launch is under way.
void remove_barriers_at(const std::string& file, int line);
/// How often a removed barrier was passed since then.
std::uint64_t passed_removed_barriers();
/// What the vocabulary asks.
bool is_removed(const Place& place);

/// Launches since set_seed().
std::uint64_t launches();

}  // namespace simt
