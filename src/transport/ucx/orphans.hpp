// What UCX leaves in /dev/shm when a process is killed while it makes it.
#pragma once

#include <cstdint>

namespace ferrule::transport::ucx {

/// Removes such files: those of this user,
/// made not before `since` (seconds since the epoch), that no process has open. Returns how many.
int remove_orphaned_shared_memory(std::int64_t since);

}  // namespace ferrule::transport::ucx
