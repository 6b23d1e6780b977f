// Fibers: a stack each, switched by hand. The emulator gives one to each thread of a block.
//
// A pool belongs to one OS thread; its fibers are used again for the next block, because making one is dear
// under sanitizers.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace simt {

class FiberPool {
 public:
  FiberPool();
  ~FiberPool();
  FiberPool(const FiberPool&) = delete;
  FiberPool& operator=(const FiberPool&) = delete;

  /// Fibers 0 .. count-1 will each run `task(index)` from the start, when they are resumed next.
  void prepare(std::size_t count, std::function<void(std::size_t)> task);
  /// Called from outside: runs fiber `index` until it pauses or ends.
  void resume(std::size_t index);
  /// Called by a fiber: back to who resumed it.
  void pause();
  bool ended(std::size_t index) const;
  /// Gives up all fibers that have not ended. Nothing on their stacks is destroyed.
  void abandon();

 private:
  struct Fiber;
  static void enter(void* fiber);
  void run(Fiber& fiber);

  struct Outside;  // the context that resumes
  std::unique_ptr<Outside> outside_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::function<void(std::size_t)> task_;
  Fiber* current_ = nullptr;
};

}  // namespace simt
