#include "memory.hpp"

#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "control.hpp"

#if defined(__SANITIZE_ADDRESS__)
#define FAKE_CUDA_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FAKE_CUDA_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FAKE_CUDA_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FAKE_CUDA_TSAN 1
#endif
#endif
#ifdef FAKE_CUDA_ASAN
#include <sanitizer/asan_interface.h>
#endif

namespace fake_cuda {
namespace {

#ifdef FAKE_CUDA_TSAN
// Opening and closing needs a lock that all streams share, which would hide what the sanitizer looks for.
constexpr bool kProtects = false;
#else
constexpr bool kProtects = true;
#endif

constexpr std::size_t kArenaBytes = std::size_t{4} << 30;
constexpr std::size_t kAlignment = 256;  ///< CUDA's
constexpr std::size_t kTail = 256;       ///< behind each allocation; AddressSanitizer watches it
constexpr std::size_t kGrain = std::size_t{1} << 20;
constexpr int kPoison = 0xa5;

void shut(void* pointer, std::size_t bytes) {
#ifdef FAKE_CUDA_ASAN
  __asan_poison_memory_region(pointer, bytes);
#else
  static_cast<void>(pointer), static_cast<void>(bytes);
#endif
}

void unshut(void* pointer, std::size_t bytes) {
#ifdef FAKE_CUDA_ASAN
  __asan_unpoison_memory_region(pointer, bytes);
#else
  static_cast<void>(pointer), static_cast<void>(bytes);
#endif
}

std::size_t rounded(std::size_t bytes) { return (bytes + kTail + kAlignment - 1) / kAlignment * kAlignment; }

// The addresses of device memory. One range, so that opening it is one system call.
class Arena {
 public:
  Arena() {
    void* memory = mmap(nullptr, kArenaBytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) {
      std::fputs("fake CUDA: cannot reserve 4 GiB of addresses\n", stderr);
      std::abort();
    }
    begin_ = static_cast<std::byte*>(memory);
  }

  std::byte* take(std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const std::size_t size = rounded(bytes);
    auto found = free_.begin();
    while (found != free_.end() && found->second < size) ++found;
    if (found != free_.end()) {
      std::byte* pointer = found->first;
      const std::size_t left = found->second - size;
      free_.erase(found);
      if (left != 0) free_.emplace(pointer + size, left);
      return pointer;
    }
    if (used_ + size > kArenaBytes) return nullptr;
    std::byte* pointer = begin_ + used_;
    used_ += size;
    grow();
    return pointer;
  }

  void give_back(std::byte* pointer, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    auto place = free_.emplace(pointer, rounded(bytes)).first;
    if (auto next = std::next(place); next != free_.end() && place->first + place->second == next->first) {
      place->second += next->second;
      free_.erase(next);
    }
    if (place == free_.begin()) return;
    if (auto before = std::prev(place); before->first + before->second == place->first) {
      before->second += place->second;
      free_.erase(place);
    }
  }

  void open() {
    if (!kProtects) return;
    const std::lock_guard lock(mutex_);
    if (users_++ == 0) protect(PROT_READ | PROT_WRITE);
  }

  void close() {
    if (!kProtects) return;
    const std::lock_guard lock(mutex_);
    if (--users_ == 0) protect(PROT_NONE);
  }

 private:
  void grow() {
    const std::size_t wanted = (used_ + kGrain - 1) / kGrain * kGrain;
    if (wanted <= mapped_) return;
    mapped_ = wanted;
    if (!kProtects || users_ != 0) protect(PROT_READ | PROT_WRITE);
  }

  void protect(int access) const {
    if (mapped_ != 0 && mprotect(begin_, mapped_, access) != 0) {
      std::perror("fake CUDA: mprotect");
      std::abort();
    }
  }

  std::mutex mutex_;
  std::byte* begin_ = nullptr;
  std::size_t used_ = 0;
  std::size_t mapped_ = 0;
  int users_ = 0;
  std::map<std::byte*, std::size_t> free_;
};

Arena& arena() {
  static auto* arena = new Arena;  // streams may outlive static objects
  return *arena;
}

struct Registry {
  std::shared_mutex mutex;  ///< readers do not order each other
  std::map<const std::byte*, Allocation> known;
  std::vector<std::pair<Allocation, std::shared_ptr<Completion>>> dying;
};

Registry& registry() {
  static auto* registry = new Registry;
  return *registry;
}

void note(const Allocation& allocation) {
  const std::unique_lock lock(registry().mutex);
  registry().known[allocation.begin] = allocation;
}

bool take_out(void* pointer, Allocation& out) {
  const std::unique_lock lock(registry().mutex);
  auto found = registry().known.find(static_cast<std::byte*>(pointer));
  if (found == registry().known.end()) return false;
  out = found->second;
  registry().known.erase(found);
  return true;
}

void release(const Allocation& allocation, bool poisoned) {
  if (allocation.foreign) return;
  if (!poisoned) {
    const DeviceAccess access;
    poison(allocation.begin, allocation.bytes);
  }
  if (allocation.type != cudaMemoryTypeDevice) return std::free(allocation.begin);
  shut(allocation.begin, allocation.bytes);
  arena().give_back(allocation.begin, allocation.bytes);
}

// Memory whose stream has come to its cudaFreeAsync.
void release_dead() {
  std::vector<Allocation> dead;
  {
    const std::unique_lock lock(registry().mutex);
    std::erase_if(registry().dying, [&](const auto& dying) {
      if (!dying.second->done()) return false;
      dead.push_back(dying.first);
      return true;
    });
  }
  for (const Allocation& allocation : dead) release(allocation, true);
}

}  // namespace

bool protects_memory() { return kProtects; }

DeviceAccess::DeviceAccess() { arena().open(); }
DeviceAccess::~DeviceAccess() { arena().close(); }

void poison(void* pointer, std::size_t bytes) { std::memset(pointer, kPoison, bytes); }

void* allocate_device(std::size_t bytes, int device) {
  release_dead();
  std::byte* pointer = arena().take(bytes);
  if (pointer == nullptr) return nullptr;
  unshut(pointer, bytes);
  shut(pointer + bytes, rounded(bytes) - bytes);
  {
    const DeviceAccess access;
    poison(pointer, bytes);
  }
  note({pointer, bytes, cudaMemoryTypeDevice, device, false});
  return pointer;
}

void* allocate_host(std::size_t bytes, cudaMemoryType type, int device) {
  void* pointer = nullptr;
  if (posix_memalign(&pointer, kAlignment, bytes == 0 ? 1 : bytes) != 0) return nullptr;
  poison(pointer, bytes);
  note({static_cast<std::byte*>(pointer), bytes, type, device, false});
  return pointer;
}

bool register_host(void* pointer, std::size_t bytes) {
  if (find_allocation(pointer).bytes != 0) return false;
  note({static_cast<std::byte*>(pointer), bytes, cudaMemoryTypeHost, -1, true});
  return true;
}

bool free_memory(void* pointer, cudaMemoryType type, bool foreign) {
  const Allocation found = find_allocation(pointer);
  const bool device_free = type == cudaMemoryTypeDevice && found.type == cudaMemoryTypeManaged;
  if (found.begin != pointer || (found.type != type && !device_free) || found.foreign != foreign)
    return false;
  Allocation taken;
  if (!take_out(pointer, taken)) return false;
  release(taken, false);
  return true;
}

bool free_later(void* pointer, std::shared_ptr<Completion> when) {
  const std::unique_lock lock(registry().mutex);
  auto found = registry().known.find(static_cast<std::byte*>(pointer));
  if (found == registry().known.end()) return false;
  registry().dying.emplace_back(found->second, std::move(when));
  registry().known.erase(found);
  return true;
}

Allocation find_allocation(const void* pointer) {
  const std::shared_lock lock(registry().mutex);
  const auto* address = static_cast<const std::byte*>(pointer);
  auto next = registry().known.upper_bound(address);
  if (next == registry().known.begin()) return {};
  const Allocation& before = std::prev(next)->second;
  const bool inside = address == before.begin || address < before.begin + before.bytes;
  return inside ? before : Allocation{};
}

bool is_device_memory(const void* pointer, std::size_t bytes) {
  const Allocation found = find_allocation(pointer);
  if (found.type != cudaMemoryTypeDevice) return false;
  return static_cast<const std::byte*>(pointer) + bytes <= found.begin + found.bytes;
}

std::string forget_memory() {
  release_dead();
  std::map<const std::byte*, Allocation> left;
  {
    const std::unique_lock lock(registry().mutex);
    left.swap(registry().known);
  }
  std::string text;
  for (const auto& [begin, allocation] : left) {
    const char* kind = allocation.type == cudaMemoryTypeDevice ? "device" : "host";
    text += std::to_string(allocation.bytes) + " bytes of " + kind + " memory\n";
    release(allocation, false);
  }
  return text;
}

}  // namespace fake_cuda
