// Log lines on stderr (or FERRULE_DEBUG_FILE), never on stdout: "host:pid:tid [rank] FERRULE INFO text".
// The level comes from FERRULE_DEBUG (WARN, INFO, TRACE; default WARN). Thread safe.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

namespace ferrule::log {

enum class Level : int { warn = 0, info = 1, trace = 2 };

bool enabled(Level level);
void write(Level level, std::string_view text);

/// The rank that this thread speaks for; -1 (the default) prints "[-]". Ranks may be threads of one process.
void set_thread_rank(int rank);
int thread_rank();

template <class... Args>
void warn(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::warn)) write(Level::warn, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void info(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::info)) write(Level::info, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args>
void trace(fmt::format_string<Args...> format, Args&&... args) {
  if (enabled(Level::trace)) write(Level::trace, fmt::format(format, std::forward<Args>(args)...));
}

}  // namespace ferrule::log
