#include "rendezvous/job_secret.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/settings.hpp"

namespace ferrule::rendezvous {
namespace {

using MaybeKey = std::optional<SecretKey>;

Status bad_file(const std::string& path, std::string_view why) {
  return Status(ErrorCode::invalid_argument, fmt::format("FERRULE_JOB_SECRET_FILE='{}' {}", path, why));
}

Status check_file(const std::string& path, int file) {
  struct stat info {};
  if (::fstat(file, &info) != 0) return bad_file(path, std::strerror(errno));
  if (!S_ISREG(info.st_mode)) return bad_file(path, "is not a file");
  if ((info.st_mode & (S_IRWXO | S_IWGRP)) == 0) return Status();
  const bool readable = (info.st_mode & S_IROTH) != 0;
  return bad_file(path, fmt::format("has mode {:04o}: {} may {} it; chmod 600 it, and make a new secret",
                                    info.st_mode & 07777, readable ? "everybody" : "others",
                                    readable ? "read" : "change"));
}

Result<std::string> read_file(const std::string& path) {
  // Not blocking: the path may be a pipe that nobody writes to.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file) return bad_file(path, fmt::format("cannot be read: {}", std::strerror(errno)));
  FERRULE_RETURN_IF_ERROR(check_file(path, file.get()));
  std::string text(kMaxSecretBytes + 2,
                   '\0');  // a line's end may follow, and a byte more shows that it is longer
  std::size_t bytes = 0;
  while (bytes < text.size()) {
    const ssize_t got = ::read(file.get(), text.data() + bytes, text.size() - bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return bad_file(path, fmt::format("cannot be read: {}", std::strerror(errno)));
    if (got == 0) break;
    bytes += static_cast<std::size_t>(got);
  }
  text.resize(bytes);
  return text;
}

// Editors and echo end a file with a new line, which is no part of the secret.
void drop_line_end(std::string& text) {
  if (text.ends_with('\n')) text.pop_back();
  if (text.ends_with('\r')) text.pop_back();
}

Result<MaybeKey> make_key(const std::string& text, std::string_view source) {
  if (text.size() < kMinSecretBytes || text.size() > kMaxSecretBytes) {
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("{}: the secret has {} bytes, it must have {} to {}; `openssl rand -hex 32` makes "
                    "a good one",
                    source, text.size(), kMinSecretBytes, kMaxSecretBytes));
  }
  const auto key = SecretKey::from_text(text);
  if (!key.ok()) {
    return Status(key.status().code(), fmt::format("{} is set, but {}", source, key.status().text()));
  }
  return MaybeKey(*key);
}

}  // namespace

Result<MaybeKey> job_secret(const std::string& text, const std::string& path) {
  if (text.empty() && path.empty()) return MaybeKey();
  if (!text.empty() && !path.empty()) {
    return Status(ErrorCode::invalid_argument,
                  "FERRULE_JOB_SECRET and FERRULE_JOB_SECRET_FILE are both set: unset one of them");
  }
  if (!text.empty()) return make_key(text, "FERRULE_JOB_SECRET");
  Result<std::string> content = read_file(path);
  if (!content.ok()) return content.status();
  drop_line_end(*content);
  return make_key(*content, "FERRULE_JOB_SECRET_FILE");
}

Result<MaybeKey> job_secret() {
  return job_secret(settings::text("FERRULE_JOB_SECRET"), settings::text("FERRULE_JOB_SECRET_FILE"));
}

}  // namespace ferrule::rendezvous
