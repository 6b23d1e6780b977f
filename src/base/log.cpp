#include "base/log.hpp"

#include <fcntl.h>
#include <spdlog/logger.h>
#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>

#include "base/settings.hpp"
#include "base/text_values.hpp"

namespace ferrule::log {
namespace {

thread_local int this_thread_rank = -1;

struct LevelName {
  std::string_view name;
  Level level;
};
constexpr LevelName kLevels[] = {{"WARN", Level::warn}, {"INFO", Level::info}, {"TRACE", Level::trace}};

// One write(2) a line, so that lines of many processes on one terminal or file stay whole. (stdio would split
// long lines at its buffer's edge.)
class DescriptorSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit DescriptorSink(int descriptor) : descriptor_(descriptor) {
    set_formatter_(std::make_unique<spdlog::pattern_formatter>("%v"));
  }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    const char* at = line.data();
    std::size_t left = line.size();
    while (left > 0) {
      const ssize_t written = ::write(descriptor_, at, left);
      if (written < 0 && errno == EINTR) continue;
      if (written <= 0) return;  // nobody to tell
      at += written;
      left -= static_cast<std::size_t>(written);
    }
  }
  void flush_() override {}

  int descriptor_;
};

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string expand(std::string_view pattern, const std::string& host) {
  std::string path;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    const char next = i + 1 < pattern.size() ? pattern[i + 1] : '\0';
    if (pattern[i] != '%' || (next != 'h' && next != 'p' && next != '%')) {
      path += pattern[i];
      continue;
    }
    path += next == 'h' ? host : next == 'p' ? std::to_string(::getpid()) : "%";
    ++i;
  }
  return path;
}

class Logger {
 public:
  Logger() : host_(host_name()) {
    const std::string debug = settings::text("FERRULE_DEBUG");
    const bool level_known = read_level(debug);
    const std::string path = expand(settings::text("FERRULE_DEBUG_FILE"), host_);
    const int file =
        path.empty() ? -1 : ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    const int open_error = errno;
    const int descriptor = file < 0 ? STDERR_FILENO : file;
    logger_ = std::make_unique<spdlog::logger>("ferrule", std::make_shared<DescriptorSink>(descriptor));
    logger_->set_level(spdlog::level::trace);  // what is written was chosen already
    if (!level_known) {
      write(Level::warn,
            fmt::format("FERRULE_DEBUG='{}' is not one of WARN, INFO, TRACE; using WARN", debug));
    }
    if (!path.empty() && file < 0) {
      write(Level::warn, fmt::format("FERRULE_DEBUG_FILE: could not open '{}': {}; logging to stderr", path,
                                     std::strerror(open_error)));
    }
  }

  Level level() const { return level_; }

  void write(Level level, std::string_view text) {
    const std::string start = fmt::format("{}:{}:{} {} FERRULE {} ", host_, ::getpid(), ::gettid(),
                                          rank_text(), kLevels[static_cast<int>(level)].name);
    // Each line of a text gets the prefix, so that grep finds all of it.
    while (true) {
      const std::size_t end = std::min(text.find('\n'), text.size());
      logger_->log(spdlog::level::info, fmt::format("{}{}", start, text.substr(0, end)));
      if (end == text.size()) return;
      text.remove_prefix(end + 1);
    }
  }

 private:
  static std::string rank_text() {
    return this_thread_rank < 0 ? "[-]" : fmt::format("[{}]", this_thread_rank);
  }

  bool read_level(std::string_view text) {
    for (const LevelName& candidate : kLevels) {
      if (!equal_ignoring_case(candidate.name, text)) continue;
      level_ = candidate.level;
      return true;
    }
    return false;
  }

  std::string host_;
  Level level_ = Level::warn;
  std::unique_ptr<spdlog::logger> logger_;
};

// Never destroyed: threads and static objects may still log while the process ends.
Logger& logger() {
  static auto* instance = new Logger;
  return *instance;
}

}  // namespace

bool enabled(Level level) { return level <= logger().level(); }

void write(Level level, std::string_view text) { logger().write(level, text); }

void set_thread_rank(int rank) { this_thread_rank = rank; }
int thread_rank() { return this_thread_rank; }

}  // namespace ferrule::log
