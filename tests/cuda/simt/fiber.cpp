#include "simt/fiber.hpp"

#include <utility>

#include "simt/switch.hpp"

namespace simt {

// Enough for a kernel under AddressSanitizer, whose frames are several times as large.
constexpr std::size_t kStackBytes = 96 * 1024;

struct FiberPool::Fiber {
  FiberPool* pool = nullptr;
  std::size_t index = 0;
  bool ended = true;
  std::unique_ptr<std::byte[]> stack = std::unique_ptr<std::byte[]>(new std::byte[kStackBytes]);
  Context context;
};

struct FiberPool::Outside {
  Context context;
};

FiberPool::FiberPool() : outside_(std::make_unique<Outside>()) {}
FiberPool::~FiberPool() = default;

void FiberPool::enter(void* fiber) {
  auto& self = *static_cast<Fiber*>(fiber);
  self.context.arrived();
  self.pool->run(self);
}

// A fiber that has ended its task waits here for the next.
void FiberPool::run(Fiber& fiber) {
  while (true) {
    task_(fiber.index);
    fiber.ended = true;
    pause();
  }
}

void FiberPool::prepare(std::size_t count, std::function<void(std::size_t)> task) {
  task_ = std::move(task);
  for (std::size_t i = 0; i < count; ++i) {
    if (i == fibers_.size()) {
      auto fiber = std::make_unique<Fiber>();
      fiber->pool = this;
      fiber->index = i;
      fiber->context.start_on(fiber->stack.get(), kStackBytes, &FiberPool::enter, fiber.get());
      fibers_.push_back(std::move(fiber));
    }
    fibers_[i]->ended = false;
  }
}

void FiberPool::resume(std::size_t index) {
  current_ = fibers_[index].get();
  outside_->context.switch_to(current_->context);
  current_ = nullptr;
}

void FiberPool::pause() { current_->context.switch_to(outside_->context); }

bool FiberPool::ended(std::size_t index) const { return fibers_[index]->ended; }

// A context that is in the middle of something cannot be used again, and may share nothing with a new one.
void FiberPool::abandon() { fibers_.clear(); }

}  // namespace simt
