#include "transport/ucx/orphans.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
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

bool is_number(const std::string& text) { return text.find_first_not_of("0123456789") == std::string::npos; }

void spare_open(const std::filesystem::path& process, std::set<std::string>& files) {
  std::error_code hidden;  // other users' processes: then the file is not ours either
  for (const auto& link : std::filesystem::directory_iterator(process / "fd", hidden)) {
    std::error_code gone;
    files.erase(std::filesystem::read_symlink(link.path(), gone).string());
  }
}

/// One text for each process: a link for each mapping would take ten times as long.
void spare_mapped(const std::filesystem::path& process, std::set<std::string>& files) {
  std::ifstream maps(process / "maps");
  for (std::string line; std::getline(maps, line);) {
    const std::size_t path = line.find(kUcxFile);
    if (path != std::string::npos) files.erase(line.substr(path));
  }
}

/// Takes those out that a process has open or mapped. A process that is making one has it open. This delays
/// the news of a death, so it ends as soon as nothing is suspect any more.
void spare_used(std::set<std::string>& files) {
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    if (files.empty()) return;
    if (!is_number(process.path().filename().string())) continue;
    spare_open(process.path(), files);
    spare_mapped(process.path(), files);
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
