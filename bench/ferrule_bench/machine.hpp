// What this machine and build are, for the JSON file and the list of devices.
#pragma once

#include <cstdint>
#include <string>

namespace ferrule::bench {

struct Machine {
  std::string host;
  std::string cpu;  ///< model name
  int cores = 0;    ///< that this process may use
  std::uint64_t memory_bytes = 0;
  std::string system;    ///< e.g. "Linux 6.1.0 x86_64"
  std::string compiler;  ///< of this program
};

Machine describe_machine();

/// Bytes that can be allocated without swapping; 0 if unknown.
std::uint64_t available_memory_bytes();

/// The most memory that this process has had resident so far.
std::uint64_t peak_resident_bytes();

}  // namespace ferrule::bench
