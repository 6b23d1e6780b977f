#include "rendezvous/file_session.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <random>
#include <thread>

namespace ferrule::rendezvous {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::nanoseconds kPause = std::chrono::milliseconds(10);
constexpr auto kLinger = std::chrono::seconds(2);

Status failed(std::string_view what, const fs::path& path) {
  return Status(ErrorCode::system, fmt::format("file rendezvous: could not {} '{}': {}", what, path.string(),
                                               std::strerror(errno)));
}

// mktemp and its like leave an empty file: then the directory stands beside it.
fs::path directory_for(const std::string& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored) ? path + ".ferrule" : path;
}

std::string current_session(const fs::path& directory) {
  std::ifstream file(directory / "current");
  std::string name;
  std::getline(file, name);
  // Only a name of our own making, never a path out of the directory.
  return name.starts_with("session-") && name.find('/') == std::string::npos ? name : std::string();
}

bool is_alive(const fs::path& session) {
  const Descriptor alive(::open((session / "alive").c_str(), O_RDONLY | O_CLOEXEC));
  return alive && ::flock(alive.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

void remove_dead_sessions(const fs::path& directory) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, ignored)) {
    if (!entry.path().filename().string().starts_with("session-") || is_alive(entry.path())) continue;
    fs::remove_all(entry.path(), ignored);
  }
}

Status make_directory(const fs::path& directory) {
  if (::mkdir(directory.c_str(), 0700) == 0 || errno == EEXIST) return Status();
  return failed("make the directory", directory);
}

// A locked new file.
Result<Descriptor> create_locked(const fs::path& path) {
  Descriptor file(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file || ::flock(file.get(), LOCK_EX | LOCK_NB) != 0) return failed("lock", path);
  return file;
}

Status announce(const fs::path& directory, const std::string& name) {
  const fs::path draft = directory / ("current-" + name);
  std::ofstream(draft) << name << '\n';
  if (::rename(draft.c_str(), (directory / "current").c_str()) != 0)
    return failed("write", directory / "current");
  return Status();
}

}  // namespace

Result<std::shared_ptr<FileSession>> FileSession::host(const std::string& path) {
  const fs::path directory = directory_for(path);
  FERRULE_RETURN_IF_ERROR(make_directory(directory));
  if (const std::string running = current_session(directory);
      !running.empty() && is_alive(directory / running)) {
    return Status(
        ErrorCode::system,
        fmt::format("another job meets at file://{} and is still running; choose another path", path));
  }
  remove_dead_sessions(directory);
  std::random_device random;
  const std::string name = fmt::format("session-{:08x}{:08x}", random(), random());
  auto session = std::make_shared<FileSession>(directory / name, "file://" + path, true);
  FERRULE_RETURN_IF_ERROR(make_directory(session->directory_));
  Result<Descriptor> alive = create_locked(session->directory_ / "alive");
  if (!alive.ok()) return alive.status();
  session->alive_ = std::move(alive.value());
  if (!std::ofstream(session->directory_ / "users")) return failed("create", session->directory_ / "users");
  FERRULE_RETURN_IF_ERROR(announce(directory, name));
  return session;
}

Result<std::shared_ptr<FileSession>> FileSession::find(const std::string& path, Deadline deadline) {
  while (true) {
    const fs::path directory = directory_for(path);
    const std::string name = current_session(directory);
    if (!name.empty() && is_alive(directory / name)) {
      auto session = std::make_shared<FileSession>(directory / name, "file://" + path, false);
      session->users_ = Descriptor(::open((directory / name / "users").c_str(), O_RDONLY | O_CLOEXEC));
      if (session->users_ && ::flock(session->users_.get(), LOCK_SH | LOCK_NB) == 0) return session;
    }
    if (deadline.passed()) {
      return Status(
          ErrorCode::timeout,
          fmt::format("rank 0 did not come to file://{} before the deadline (is it the same file system "
                      "there?)",
                      path));
    }
    std::this_thread::sleep_for(std::min(kPause, deadline.left()));
  }
}

FileSession::~FileSession() {
  if (!is_host_) return;
  const Descriptor users(::open((directory_ / "users").c_str(), O_RDONLY | O_CLOEXEC));
  const Deadline deadline = Deadline::after(kLinger);
  while (users && ::flock(users.get(), LOCK_EX | LOCK_NB) != 0 && !deadline.passed()) {
    std::this_thread::sleep_for(kPause);
  }
  const fs::path directory = directory_.parent_path();
  std::error_code ignored;
  if (current_session(directory) == directory_.filename()) fs::remove(directory / "current", ignored);
  fs::remove_all(directory_, ignored);
  fs::remove(directory, ignored);  // only when it is empty
}

}  // namespace ferrule::rendezvous
