#include "simt/block.hpp"

#include <algorithm>
#include <exception>

namespace simt {

std::string Place::text() const {
  const std::string path = file;
  return path.substr(path.rfind('/') + 1) + ":" + std::to_string(line);
}

std::uint64_t Random::next() {
  state_ += 0x9e3779b97f4a7c15u;
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Block::Block(FiberPool& fibers, unsigned threads, const Options& options)
    : fibers_(fibers), threads_(threads), random_(options.seed), switches_left_(options.most_switches) {
  if (threads == 0 || threads > kMostThreads) {
    throw Fault{"a block of " + std::to_string(threads) + " threads; 1 to 1024 are possible"};
  }
  const std::uint64_t kind = random_.next() % 8;
  order_ = kind == 0 ? Order::forwards : (kind == 1 ? Order::backwards : Order::random);
}

void Block::run(unsigned index, unsigned blocks, const std::function<void()>& kernel) {
  index_ = index;
  blocks_ = blocks;
  states_.assign(threads_, Thread{});
  ready_.clear();
  for (unsigned i = 0; i < threads_; ++i) ready_.push_back(i);
  arrived_ = left_ = votes_ = 0;
  shared_.clear();
  fibers_.prepare(threads_, [this, &kernel](std::size_t thread) { body(thread, kernel); });
  Block* const outer = running();
  running() = this;
  schedule();
  running() = outer;
  if (fault_.empty()) return;
  fibers_.abandon();
  throw Fault{fault_ + " (block " + std::to_string(index_) + " of " + std::to_string(blocks_) + ")"};
}

void Block::body(std::size_t thread, const std::function<void()>& kernel) {
  try {
    kernel();
    leave();
  } catch (const Fault& fault) {
    if (fault_.empty()) fault_ = fault.text;
  } catch (const std::exception& error) {
    fault_ = "thread " + std::to_string(thread) + " threw: " + error.what();
  }
}

void Block::schedule() {
  while (fault_.empty() && left_ < threads_) {
    if (ready_.empty()) {
      fault_ = "deadlock: " + waiting_threads();
    } else if (switches_left_-- == 0) {
      fault_ = "the launch did not end: thread " + std::to_string(ready_.front()) + " is still running";
    } else {
      const std::size_t at = choose();
      current_ = ready_[at];
      ready_[at] = ready_.back();
      ready_.pop_back();
      fibers_.resume(current_);
    }
  }
}

std::size_t Block::choose() {
  const auto position = [&](auto found) { return static_cast<std::size_t>(found - ready_.begin()); };
  switch (order_) {
    case Order::forwards:
      return position(std::min_element(ready_.begin(), ready_.end()));
    case Order::backwards:
      return position(std::max_element(ready_.begin(), ready_.end()));
    case Order::random:
      break;
  }
  return random_.below(ready_.size());
}

void Block::wait() { fibers_.pause(); }

void Block::wake(unsigned thread) {
  states_[thread].state = State::ready;
  ready_.push_back(thread);
}

// Also ends the fiber that found it: the others stay where they are, for abandon().
void Block::fail(const std::string& what) { throw Fault{what}; }

void Block::yield() {
  wake(current_);
  wait();
}

void* Block::shared(const void* key, std::size_t bytes, std::size_t alignment) {
  auto& memory = shared_[key];
  if (memory == nullptr) {
    // From the heap, so that AddressSanitizer sees what goes beyond; aligned as the type wants, by hand.
    memory.reset(new std::byte[bytes + alignment]);
    // Poison: what a block before, or nobody, has written there must not look right.
    std::uint64_t poison = random_.next();
    for (std::size_t i = 0; i < bytes + alignment; ++i, poison = poison << 7 | poison >> 57) {
      memory[i] = static_cast<std::byte>(poison);
    }
  }
  const auto address =
      (reinterpret_cast<std::uintptr_t>(memory.get()) + alignment - 1) / alignment * alignment;
  return reinterpret_cast<void*>(address);
}

std::string Block::describe(unsigned thread) const {
  const Thread& state = states_[thread];
  std::string text = "thread " + std::to_string(thread) + " ";
  switch (state.state) {
    case State::ready:
      return text + "runs";
    case State::meeting:
      return text + "waits for its warp at " + state.visit->place.text();
    case State::barrier:
      return text + "waits at the barrier at " + state.place.text();
    case State::left:
      return text + "has left the kernel";
  }
  return text;
}

std::string Block::waiting_threads() const {
  constexpr unsigned kMostNamed = 8;
  std::string text;
  unsigned named = 0;
  for (unsigned i = 0; i < threads_ && named < kMostNamed; ++i) {
    if (states_[i].state == State::left) continue;
    text += (named++ == 0 ? "" : ", ") + describe(i);
  }
  return text;
}

}  // namespace simt
