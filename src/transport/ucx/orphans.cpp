#include "transport/ucx/orphans.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <system_error>

namespace ferrule::transport::ucx {
namespace {

constexpr std::string_view kUcxFile = "/dev/shm/ucx_shm_posix_";

std::set<std::string> suspect_files(std::int64_t since) {
  namespace fs = std::filesystem;
  std::set<std::string> files;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/dev/shm", ignored)) {
    struct stat info {};
    const std::string path = entry.path().string();
    if (!path.starts_with(kUcxFile) || ::stat(path.c_str(), &info) != 0) continue;
    if (info.st_uid == ::geteuid() && info.st_ctime >= since) files.insert(path);
  }
  return files;
}

/// Takes those out that a process has open or mapped. A process that is making one has it open.
void spare_used(std::set<std::string>& files) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    if (process.path().filename().string().find_first_not_of("0123456789") != std::string::npos) continue;
    for (const char* kind : {"fd", "map_files"}) {
      std::error_code hidden;  // other users' processes: then the file is not ours either
      for (const auto& link : fs::directory_iterator(process.path() / kind, hidden)) {
        std::error_code gone;
        files.erase(fs::read_symlink(link.path(), gone).string());
      }
    }
    if (files.empty()) return;
  }
}

}  // namespace

int remove_orphaned_shared_memory(std::int64_t since) {
  std::set<std::string> files = suspect_files(since);
  if (files.empty()) return 0;
  spare_used(files);
  int removed = 0;
  for (const std::string& file : files) removed += ::unlink(file.c_str()) == 0 ? 1 : 0;
  return removed;
}

}  // namespace ferrule::transport::ucx
