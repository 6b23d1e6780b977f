#include "bench/ferrule_bench/machine.hpp"

#include <fmt/format.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string_view>

namespace ferrule::bench {
namespace {

/// The text after ':' on the first line of `path` that starts with `key`; "" if there is none.
std::string field_of(const char* path, std::string_view key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (line.compare(0, key.size(), key) != 0 || colon == std::string::npos) continue;
    const auto start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

std::uint64_t meminfo_bytes(std::string_view key) {
  std::istringstream text(field_of("/proc/meminfo", key));
  std::uint64_t kib = 0;
  text >> kib;
  return kib * 1024;
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
}

}  // namespace

Machine describe_machine() {
  utsname names{};
  uname(&names);
  Machine machine;
  machine.host = names.nodename;
  machine.cpu = field_of("/proc/cpuinfo", "model name");
  if (machine.cpu.empty()) machine.cpu = names.machine;
  machine.cores = usable_cores();
  machine.memory_bytes = meminfo_bytes("MemTotal");
  machine.system = fmt::format("{} {} {}", names.sysname, names.release, names.machine);
#if defined(__clang__)
  machine.compiler = __VERSION__;
#else
  machine.compiler = "GCC " __VERSION__;
#endif
  return machine;
}

std::uint64_t peak_resident_bytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;  // it counts KiB
}

std::uint64_t available_memory_bytes() { return meminfo_bytes("MemAvailable"); }

}  // namespace ferrule::bench
