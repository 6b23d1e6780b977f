// Memory that ends at an unmapped page, so that reading or writing one byte too far is a crash, not luck.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

namespace ferrule::testing {

/// `bytes` usable bytes that end `slack` bytes before an unmapped page; another unmapped page lies below. The
/// mapped bytes around them hold a pattern that intact() checks. `slack` chooses the alignment. A buffer must
/// be destroyed by the thread that made it, or at least not at the thread's exit.
class GuardBuffer {
 public:
  explicit GuardBuffer(std::size_t bytes, std::size_t slack = 0) : bytes_(bytes), slack_(slack) {
    const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
    inner_bytes_ = (bytes + slack + page) / page * page;  // at least one byte of pattern in front
    inner_ = take(inner_bytes_, page);
    std::memset(inner_, kPattern, inner_bytes_);
  }
  ~GuardBuffer() { spares().push_back({inner_, inner_bytes_}); }
  GuardBuffer(const GuardBuffer&) = delete;
  GuardBuffer& operator=(const GuardBuffer&) = delete;

  std::byte* data() { return inner_ + inner_bytes_ - slack_ - bytes_; }
  const std::byte* data() const { return inner_ + inner_bytes_ - slack_ - bytes_; }
  std::size_t size() const { return bytes_; }
  std::span<const std::byte> bytes() const { return {data(), bytes_}; }

  template <class T>
  T* as() {
    return reinterpret_cast<T*>(data());
  }
  template <class T>
  std::span<const T> view() const {
    return {reinterpret_cast<const T*>(data()), bytes_ / sizeof(T)};
  }

  /// Whether nothing was written around the usable bytes.
  bool intact() const {
    const auto pattern = [](std::byte b) { return b == static_cast<std::byte>(kPattern); };
    return std::all_of(static_cast<const std::byte*>(inner_), data(), pattern) &&
           std::all_of(data() + bytes_, static_cast<const std::byte*>(inner_ + inner_bytes_), pattern);
  }

 private:
  static constexpr int kPattern = 0xa5;

  struct Mapping {
    std::byte* inner;
    std::size_t bytes;
  };

  // Mappings are kept for the next buffer of their size: making one costs more than most tests do with it.
  static std::vector<Mapping>& spares() {
    thread_local std::vector<Mapping> kept;
    return kept;
  }

  static std::byte* take(std::size_t bytes, std::size_t page) {
    std::vector<Mapping>& kept = spares();
    const auto fits = [&](const Mapping& mapping) { return mapping.bytes == bytes; };
    const auto found = std::find_if(kept.begin(), kept.end(), fits);
    if (found == kept.end()) return map(bytes, page);
    std::byte* inner = found->inner;
    *found = kept.back();
    kept.pop_back();
    return inner;
  }

  static std::byte* map(std::size_t bytes, std::size_t page) {
    void* mapped = ::mmap(nullptr, bytes + 2 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::runtime_error("mmap of a guarded buffer failed");
    std::byte* inner = static_cast<std::byte*>(mapped) + page;
    if (::mprotect(inner, bytes, PROT_READ | PROT_WRITE) != 0) {
      throw std::runtime_error("mprotect of a guarded buffer failed");
    }
    return inner;
  }

  std::size_t bytes_;
  std::size_t slack_;
  std::size_t inner_bytes_ = 0;
  std::byte* inner_ = nullptr;
};

}  // namespace ferrule::testing
