// Device memory: a reserved range of addresses that is open only while an operation runs; and what is known
// of pinned and managed memory.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <string>

#include "stream.hpp"

namespace fake_cuda {

/// What an address belongs to; `bytes` 0: to nothing that is known.
struct Allocation {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  cudaMemoryType type = cudaMemoryTypeUnregistered;
  int device = -1;
  bool foreign = false;  ///< registered, not allocated
};

/// Null: out of memory (the reserved range is 4 GiB). Poisoned.
void* allocate_device(std::size_t bytes, int device);
/// Pinned or managed. Poisoned.
void* allocate_host(std::size_t bytes, cudaMemoryType type, int device);
bool register_host(void* pointer, std::size_t bytes);
/// Forgets the allocation that begins here and poisons it; false if there is none of this type.
bool free_memory(void* pointer, cudaMemoryType type, bool foreign = false);
/// Frees when the completion is reached; the poisoning is the stream's. False: nothing begins here.
bool free_later(void* pointer, std::shared_ptr<Completion> when);
/// The allocation that holds the address.
Allocation find_allocation(const void* pointer);
/// Fills with the poison; on a stream's thread.
void poison(void* pointer, std::size_t bytes);
/// Frees everything; one line for each allocation that was still there.
std::string forget_memory();

}  // namespace fake_cuda
