#include "stream.hpp"

#include <sched.h>

#include <chrono>
#include <utility>

#include "control.hpp"
#include "runtime.hpp"

namespace fake_cuda {
namespace {

constexpr std::chrono::seconds kPatience{60};
constexpr std::chrono::milliseconds kLook{20};  ///< between looks at whether to give up

thread_local bool t_in_host_function = false;
std::atomic<std::uint64_t> g_shuffle_seed{0};

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

}  // namespace

bool in_host_function() { return t_in_host_function; }

std::atomic<bool>& giving_up() {
  static std::atomic<bool> value{false};
  return value;
}

void set_shuffle_seed(std::uint64_t seed) { g_shuffle_seed.store(seed, std::memory_order_relaxed); }
std::uint64_t shuffle_seed() { return g_shuffle_seed.load(std::memory_order_relaxed); }

std::uint64_t next_random(std::uint64_t& state) {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

// ---- completion

void Completion::finish() {
  {
    const std::lock_guard lock(mutex_);
    done_ = true;
    seconds_ = now_s();
  }
  changed_.notify_all();
}

bool Completion::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

bool Completion::wait(const std::atomic<bool>& give_up) const {
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [&] { return done_; })) {
    if (give_up.load(std::memory_order_relaxed)) return false;
  }
  return true;
}

void Completion::wait_on_host(const char* caller) const {
  std::unique_lock lock(mutex_);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  while (!changed_.wait_for(lock, kLook, [&] { return done_; })) {
    if (giving_up().load(std::memory_order_relaxed)) return;
    if (std::chrono::steady_clock::now() > until) die_of_a_hang(caller);
  }
}

double Completion::seconds() const {
  const std::lock_guard lock(mutex_);
  return seconds_;
}

// ---- stream

Stream::Stream(int number, int device, bool blocking)
    : number_(number), device_(device), blocking_(blocking), thread_([this] { work(); }) {}

Stream::~Stream() {
  close();
  thread_.join();
}

void Stream::push(Operation operation) {
  {
    const std::lock_guard lock(mutex_);
    // The thread has gone, its stream was destroyed: all is done that ever will be.
    if (ended_) return operation.completion == nullptr ? void() : operation.completion->finish();
    queue_.push_back(std::move(operation));
  }
  changed_.notify_one();
}

std::shared_ptr<Completion> Stream::mark() {
  auto completion = std::make_shared<Completion>();
  push({Operation::Kind::mark, "mark", {}, completion});
  return completion;
}

void Stream::wait_for(std::shared_ptr<Completion> completion) {
  push({Operation::Kind::wait, "wait for an event", {}, std::move(completion)});
}

bool Stream::idle() const {
  const std::lock_guard lock(mutex_);
  return queue_.empty() && running_.empty();
}

void Stream::set_held(bool held) {
  {
    const std::lock_guard lock(mutex_);
    held_ = held;
  }
  changed_.notify_one();
}

void Stream::close() {
  {
    const std::lock_guard lock(mutex_);
    closed_ = true;
    held_ = false;
  }
  changed_.notify_one();
}

std::string Stream::describe() const {
  const std::lock_guard lock(mutex_);
  std::string text = "stream " + std::to_string(number_) + " of device " + std::to_string(device_) + ": ";
  if (held_) text += "held, ";
  if (!running_.empty()) text += "in \"" + running_ + "\", ";
  return text + std::to_string(queue_.size()) + " more operations queued";
}

void Stream::work() {
  random_ = shuffle_seed() ^ (static_cast<std::uint64_t>(number_) << 32);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return (!held_ && !queue_.empty()) || (closed_ && queue_.empty()); });
    ended_ = queue_.empty();
    if (ended_) return;
    Operation operation = std::move(queue_.front());
    queue_.pop_front();
    running_ = operation.name;
    lock.unlock();
    execute(operation);
    operation = {};  // what it holds is let go here, not under the lock
    lock.lock();
    running_.clear();
  }
}

void Stream::execute(const Operation& operation) {
  if (operation.kind == Operation::Kind::mark) return operation.completion->finish();
  if (is_broken()) return;
  if (operation.kind == Operation::Kind::wait) {
    static_cast<void>(operation.completion->wait(giving_up()));
    return;
  }
  pause();
  count_executed(operation.kind);
  if (operation.kind == Operation::Kind::external) return operation.run();
  if (operation.kind == Operation::Kind::host_function) {
    t_in_host_function = true;
    operation.run();
    t_in_host_function = false;
    return;
  }
  const DeviceAccess access;
  operation.run();
}

// Long enough to let other streams and the host overtake, in one of four operations.
void Stream::pause() {
  if (shuffle_seed() == 0) return;
  const std::uint64_t random = next_random(random_);
  if (random % 4 == 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(random / 4 % 200));
  } else if (random % 4 == 1) {
    sched_yield();
  }
}

}  // namespace fake_cuda
