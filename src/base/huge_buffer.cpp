#include "base/huge_buffer.hpp"

#include <fmt/format.h>
#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <new>

namespace ferrule {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t mapped_bytes(std::size_t bytes) { return (bytes + kHugePage - 1) / kHugePage * kHugePage; }

// Below this a mapping of its own wastes more than it saves.
constexpr std::size_t kSmallest = std::size_t{256} << 10;
constexpr std::align_val_t kAlignment{64};

}  // namespace

HugeBuffer::~HugeBuffer() {
  if (data_ == nullptr) return;
  if (bytes_ < kSmallest) {
    ::operator delete(data_, kAlignment);
  } else {
    ::munmap(data_, mapped_bytes(bytes_));
  }
}

Result<HugeBuffer> HugeBuffer::allocate(std::size_t bytes) {
  HugeBuffer buffer;
  if (bytes == 0) return buffer;
  void* memory = nullptr;
  if (bytes < kSmallest) {
    memory = ::operator new(bytes, kAlignment, std::nothrow);
  } else {
    memory = ::mmap(nullptr, mapped_bytes(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) memory = nullptr;
  }
  if (memory == nullptr) {
    return Status(ErrorCode::system, fmt::format("could not allocate {} bytes of scratch memory: {}", bytes,
                                                 std::strerror(errno)));
  }
  if (bytes >= kSmallest) ::madvise(memory, mapped_bytes(bytes), MADV_HUGEPAGE);
  std::memset(memory, 0, bytes);
  buffer.data_ = static_cast<std::byte*>(memory);
  buffer.bytes_ = bytes;
  return buffer;
}

}  // namespace ferrule
