// The part of NCCL that Ferrule calls: a table of functions, found at run time. The declarations are our own,
// so that a build needs no nccl.h; where there is one, a test compares the two.
#pragma once

#include <cstddef>

/// NCCL's opaque communicator (ncclComm_t is a pointer to it).
struct ncclComm;

namespace ferrule::transport::nccl {

using Comm = ::ncclComm*;

/// ncclResult_t. Values of 8 and more are unknown to old versions.
enum class Code : int {
  success = 0,
  unhandled_cuda_error = 1,
  system_error = 2,
  internal_error = 3,
  invalid_argument = 4,
  invalid_usage = 5,
  remote_error = 6,
  in_progress = 7,
};

/// ncclUniqueId.
struct UniqueId {
  char bytes[128];
};

/// ncclConfig_t as it was in 2.14, which later versions accept: their own fields get their defaults.
struct Config {
  std::size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 1;
};

inline constexpr int kUint8 = 1;  ///< ncclUint8

struct Api {
  Code (*get_version)(int* version) = nullptr;
  Code (*get_unique_id)(UniqueId* id) = nullptr;
  Code (*comm_init_rank_config)(Comm* comm, int ranks, UniqueId id, int rank, Config* config) = nullptr;
  Code (*comm_destroy)(Comm comm) = nullptr;
  Code (*comm_abort)(Comm comm) = nullptr;
  Code (*comm_get_async_error)(Comm comm, Code* error) = nullptr;
  Code (*comm_count)(const Comm comm, int* ranks) = nullptr;
  Code (*comm_user_rank)(const Comm comm, int* rank) = nullptr;
  Code (*group_start)() = nullptr;
  Code (*group_end)() = nullptr;
  Code (*send)(const void* data, std::size_t count, int type, int peer, Comm comm, void* stream) = nullptr;
  Code (*recv)(void* data, std::size_t count, int type, int peer, Comm comm, void* stream) = nullptr;
  Code (*all_gather)(const void* mine, void* all, std::size_t count, int type, Comm comm,
                     void* stream) = nullptr;
  const char* (*get_error_string)(Code code) = nullptr;
  const char* (*get_last_error)(Comm comm) = nullptr;
};

}  // namespace ferrule::transport::nccl
