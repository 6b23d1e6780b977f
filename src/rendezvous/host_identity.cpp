#include "rendezvous/host_identity.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace ferrule::rendezvous {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

// New at every start of the kernel; machines made from one image share a machine-id, but never this.
std::string boot_id(const std::string& otherwise) {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  std::getline(file, id);
  return id.empty() ? otherwise : id;
}

std::string namespace_id(const char* path) {
  struct stat info {};
  return ::stat(path, &info) == 0 ? std::to_string(info.st_ino) : "?";
}

// Containers of one IPC namespace may still have a /dev/shm each: it is the mounted file system that counts.
std::string shared_memory_device() {
  struct stat info {};
  return ::stat("/dev/shm", &info) == 0 ? std::to_string(info.st_dev) : "?";
}

}  // namespace

HostIdentity host_identity() {
  HostIdentity identity;
  identity.name = host_name();
  const std::string boot = boot_id(identity.name);
  const std::string network = namespace_id("/proc/self/ns/net");
  identity.network = fmt::format("{}-{}", boot, network);
  identity.memory = fmt::format("{}-{}", boot, namespace_id("/proc/self/ns/ipc"));
  identity.host = fmt::format("{}-{}-{}", identity.memory, network, shared_memory_device());
  return identity;
}

}  // namespace ferrule::rendezvous
