#include "transport/nccl/nccl_library.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>

#include "base/settings.hpp"

namespace ferrule::transport::nccl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSoname = "libnccl.so.2";

void add_wheels(const fs::path& lib, std::vector<std::string>& files) {
  std::error_code error;
  for (const fs::directory_entry& python : fs::directory_iterator(lib, error)) {
    if (python.path().filename().string().rfind("python3", 0) != 0) continue;
    const fs::path file = python.path() / "site-packages" / "nvidia" / "nccl" / "lib" / kSoname;
    if (fs::exists(file, error)) files.push_back(file.string());
  }
}

// Beside the Python package that this library is part of.
void add_neighbour_wheel(std::vector<std::string>& files) {
  Dl_info self{};
  if (dladdr(reinterpret_cast<const void*>(&add_neighbour_wheel), &self) == 0) return;
  std::error_code error;
  fs::path folder = fs::absolute(self.dli_fname, error).parent_path();
  for (; folder.has_relative_path(); folder = folder.parent_path()) {
    if (folder.filename() != "site-packages" && folder.filename() != "dist-packages") continue;
    const fs::path file = folder / "nvidia" / "nccl" / "lib" / kSoname;
    if (fs::exists(file, error)) files.push_back(file.string());
    return;
  }
}

void add_under(const char* variable, const char* folder, std::vector<std::string>& files) {
  const char* root = std::getenv(variable);
  if (root != nullptr && *root != '\0') files.push_back((fs::path(root) / folder / kSoname).string());
}

template <class Function>
bool find(void* handle, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(handle, name));
  return function != nullptr;
}

// Returns the first name that is missing, or null.
const char* find_all(void* handle, Api& api) {
  if (!find(handle, "ncclGetVersion", api.get_version)) return "ncclGetVersion";
  if (!find(handle, "ncclGetUniqueId", api.get_unique_id)) return "ncclGetUniqueId";
  if (!find(handle, "ncclCommInitRankConfig", api.comm_init_rank_config)) return "ncclCommInitRankConfig";
  if (!find(handle, "ncclCommDestroy", api.comm_destroy)) return "ncclCommDestroy";
  if (!find(handle, "ncclCommAbort", api.comm_abort)) return "ncclCommAbort";
  if (!find(handle, "ncclCommGetAsyncError", api.comm_get_async_error)) return "ncclCommGetAsyncError";
  if (!find(handle, "ncclCommCount", api.comm_count)) return "ncclCommCount";
  if (!find(handle, "ncclCommUserRank", api.comm_user_rank)) return "ncclCommUserRank";
  if (!find(handle, "ncclGroupStart", api.group_start)) return "ncclGroupStart";
  if (!find(handle, "ncclGroupEnd", api.group_end)) return "ncclGroupEnd";
  if (!find(handle, "ncclSend", api.send)) return "ncclSend";
  if (!find(handle, "ncclRecv", api.recv)) return "ncclRecv";
  if (!find(handle, "ncclAllGather", api.all_gather)) return "ncclAllGather";
  if (!find(handle, "ncclGetErrorString", api.get_error_string)) return "ncclGetErrorString";
  if (!find(handle, "ncclGetLastError", api.get_last_error)) return "ncclGetLastError";
  return nullptr;
}

// The version first: an old library lacks functions, and its age is the better reason.
Result<Library> examine(void* handle, const std::string& file) {
  Library found;
  found.where = file;
  if (!find(handle, "ncclGetVersion", found.api.get_version)) {
    return Status(ErrorCode::unsupported, fmt::format("{} is no NCCL: it has no ncclGetVersion", file));
  }
  if (found.api.get_version(&found.version) != Code::success) {
    return Status(ErrorCode::unsupported, fmt::format("{} does not tell its version", file));
  }
  if (found.version < kLeastVersion) {
    return Status(ErrorCode::unsupported,
                  fmt::format("{} is NCCL {}; {} or newer is needed", file, version_text(found.version),
                              version_text(kLeastVersion)));
  }
  if (const char* missing = find_all(handle, found.api)) {
    return Status(ErrorCode::unsupported,
                  fmt::format("{} (NCCL {}) has no {}", file, version_text(found.version), missing));
  }
  return found;
}

struct OfProcess {
  std::mutex mutex;
  const Library* replacement = nullptr;
  std::optional<Result<Library>> found;
};

OfProcess& of_process() {
  static auto* value = new OfProcess;  // communicators may outlive static objects
  return *value;
}

}  // namespace

std::string version_text(int version) {
  // Up to 2.8 NCCL counted 2.8.4 as 2804, since then 2.9.6 as 20906.
  const int major = version < 10000 ? version / 1000 : version / 10000;
  const int minor = version < 10000 ? version % 1000 / 100 : version % 10000 / 100;
  return fmt::format("{}.{}.{}", major, minor, version % 100);
}

std::vector<std::string> candidates(const std::string& named) {
  if (!named.empty()) return {named};
  std::vector<std::string> files{kSoname};
  add_neighbour_wheel(files);
  if (const char* environment = std::getenv("VIRTUAL_ENV")) add_wheels(fs::path(environment) / "lib", files);
  add_under("CONDA_PREFIX", "lib", files);
  add_under("CUDA_HOME", "lib64", files);
  add_under("CUDA_PATH", "lib64", files);
  files.push_back(std::string("/usr/local/cuda/lib64/") + kSoname);
  return files;
}

Result<Library> load(const std::vector<std::string>& files) {
  std::string reasons;
  // What a framework has loaded comes first: two copies in a process would each have its own idea of it.
  for (const int only_loaded : {RTLD_NOLOAD, 0}) {
    for (const std::string& file : files) {
      void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL | only_loaded);
      if (handle == nullptr && only_loaded != 0) continue;
      if (handle == nullptr) {
        reasons += fmt::format("\n  {}", dlerror());
        continue;
      }
      Result<Library> found = examine(handle, file);
      if (found.ok()) return found;
      if (only_loaded != 0) continue;  // said below
      reasons += "\n  " + found.status().text();
    }
  }
  return Status(
      ErrorCode::unsupported,
      fmt::format("no usable NCCL. Install nvidia-nccl-cu12 or nvidia-nccl-cu13 (pip) or libnccl2, or "
                  "name the file with FERRULE_NCCL_LIBRARY. Tried:{}",
                  reasons));
}

Result<const Library*> library() {
  OfProcess& process = of_process();
  const std::lock_guard lock(process.mutex);
  if (process.replacement != nullptr) return process.replacement;
  if (!process.found) {
    auto settings = Settings::from_environment();
    FERRULE_RETURN_IF_ERROR(settings.status());
    process.found = load(candidates(settings->text("FERRULE_NCCL_LIBRARY")));
  }
  FERRULE_RETURN_IF_ERROR(process.found->status());
  return &**process.found;
}

void replace_library(const Library* library) {
  OfProcess& process = of_process();
  const std::lock_guard lock(process.mutex);
  process.replacement = library;
  process.found.reset();
}

}  // namespace ferrule::transport::nccl
