// A fake NCCL: ranks are threads, groups are operations of the fake runtime's streams.
//
// It keeps the rules that matter: sends and receives move when their group runs, a group ends when all of it
// has matched, messages between two ranks match in order, both ends must have the same size, a communicator
// runs one group at a time. Memory is checked against the runtime's: a byte too many is an error of the call.
// It may be captured like everything else on a stream. Communicators are non-blocking if they are asked to
// be.
#pragma once

#include <cstdint>
#include <string>

#include "transport/nccl/nccl_library.hpp"

namespace fake_nccl {

struct Counters {
  std::uint64_t groups = 0;      ///< enqueued (or captured), all-gathers not included
  std::uint64_t gathers = 0;     ///< the same
  std::uint64_t executed = 0;    ///< both, when the stream got there
  std::uint64_t bytes_sent = 0;  ///< executed
};

/// 2.30.7 unless set otherwise.
const ferrule::transport::nccl::Library& library(int version = 23007);
Counters counters();
/// What has been called on a communicator that was aborted or destroyed; empty if nothing. Cleared.
std::string misuse();
/// As when a peer's process has died: every other rank of the communicator hears of it.
void kill(ferrule::transport::nccl::Comm comm);
/// Forgets all communicators. No stream may be at work.
void reset();

}  // namespace fake_nccl
