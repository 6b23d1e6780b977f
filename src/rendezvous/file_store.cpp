#include "rendezvous/file_store.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/descriptor.hpp"
#include "rendezvous/memory_store.hpp"

namespace ferrule::rendezvous {
namespace {

namespace fs = std::filesystem;

// File names are at most 255 bytes; longer ones keep their start and get a hash. The key in the file decides.
constexpr std::size_t kMaxNameBytes = 200;

std::uint64_t fnv1a(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return hash;
}

std::string file_name(std::string_view key) {
  std::string name = "k-";
  for (const char c : key) {
    const bool plain =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    name += plain ? std::string(1, c) : fmt::format("%{:02x}", static_cast<unsigned char>(c));
  }
  if (name.size() <= kMaxNameBytes) return name;
  return fmt::format("{}#{:016x}", name.substr(0, kMaxNameBytes), fnv1a(key));
}

Status failed(std::string_view what, const fs::path& path) {
  return Status(ErrorCode::system,
                fmt::format("could not {} '{}': {}", what, path.string(), std::strerror(errno)));
}

Status write_all(const Descriptor& file, std::string_view text, const fs::path& path) {
  while (!text.empty()) {
    const ssize_t written = ::write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return failed("write", path);
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return Status();
}

}  // namespace

fs::path FileStore::path_of(std::string_view key) const { return directory_ / file_name(key); }

Status FileStore::set(std::string_view key, std::string_view value) {
  FERRULE_RETURN_IF_ERROR(check_entry(key, value));
  static std::atomic<unsigned> counter{0};
  const fs::path draft = directory_ / fmt::format("draft-{}-{}-{}", fnv1a(key), ::getpid(), counter++);
  {
    const Descriptor file(::open(draft.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) return failed("create", draft);
    FERRULE_RETURN_IF_ERROR(write_all(file, fmt::format("{}\n{}", key, value), draft));
  }
  // link, not rename: of two ranks that set a key at the same time, exactly one must succeed.
  const fs::path path = path_of(key);
  const int linked = ::link(draft.c_str(), path.c_str());
  const int why = errno;
  ::unlink(draft.c_str());
  if (linked == 0) return Status();
  errno = why;
  if (why != EEXIST) return failed("link", path);
  const Result<std::string> present = read(key);
  return present.ok() && present.value() == value ? Status() : key_conflict(key, describe());
}

Result<std::string> FileStore::read(std::string_view key) const {
  const fs::path path = path_of(key);
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file && (errno == ENOENT || errno == ESTALE)) return key_timeout(key, describe());
  if (!file) return failed("open", path);
  std::string text(kMaxKeyBytes + 2 + kMaxValueBytes, '\0');  // one byte more than is allowed
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + size, text.size() - size);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed("read", path);
    if (got == 0) break;
    size += static_cast<std::size_t>(got);
  }
  text.resize(size);
  if (text.size() <= key.size() || !text.starts_with(key) || text[key.size()] != '\n') {
    return Status(ErrorCode::corrupt,
                  fmt::format("'{}' does not hold the key '{}'; is something else written into "
                              "the directory?",
                              path.string(), key));
  }
  text.erase(0, key.size() + 1);
  if (text.size() > kMaxValueBytes) return check_entry(key, text);
  return text;
}

Result<std::string> FileStore::get(std::string_view key, Deadline deadline) {
  FERRULE_RETURN_IF_ERROR(check_key(key));
  std::chrono::nanoseconds pause = std::chrono::milliseconds(1);
  while (true) {
    // Looked at before reading, so that a value set just before the deadline is still found.
    const bool last = deadline.passed();
    Result<std::string> value = read(key);
    if (value.ok() || value.status().code() != ErrorCode::timeout || last) return value;
    std::this_thread::sleep_for(std::min(pause, deadline.left()));
    pause = std::min<std::chrono::nanoseconds>(pause * 2, std::chrono::milliseconds(50));
  }
}

}  // namespace ferrule::rendezvous
