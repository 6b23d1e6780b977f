#include "transport/ucx/ucx_settings.hpp"

#include <dlfcn.h>
#include <fmt/format.h>
#include <signal.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/log.hpp"

namespace ferrule::transport::ucx {
namespace {

/// From 64 KiB on, the 16-bit length in UCX's shared-memory queue wraps.
constexpr std::size_t kSegmentLimitBytes = 65536;

bool user_set(std::string_view key) { return std::getenv(fmt::format("UCX_{}", key).c_str()) != nullptr; }

/// The user's variables for a key: those of shared memory also exist for each kind of it.
bool user_chose(std::string_view key) {
  if (user_set(key)) return true;
  if (key == "RX_SEG_SIZE") return user_set("TCP_RX_SEG_SIZE");
  if (!key.starts_with("MM_")) return false;
  const std::string rest(key.substr(3));
  return user_set("POSIX_" + rest) || user_set("SYSV_" + rest);
}

/// "65000", "64K", "1m": the sizes that UCX understands; 0 when it is none of these ("auto", "inf").
std::size_t parse_size(const char* text) {
  char* end = nullptr;
  const double number = std::strtod(text, &end);
  if (end == text || number < 0) return 0;
  switch (*end) {
    case 'k':
    case 'K':
      return static_cast<std::size_t>(number * 1024);
    case 'm':
    case 'M':
      return static_cast<std::size_t>(number * 1048576);
    case 'g':
    case 'G':
      return static_cast<std::size_t>(number * 1073741824);
    default:
      return static_cast<std::size_t>(number);
  }
}

/// UCX writes its complaints to stdout, which is for results. What they lead to is in our errors; the details
/// are for those who ask for INFO.
ucs_log_func_rc_t log_line(const char* /*file*/, unsigned /*line*/, const char* /*function*/,
                           ucs_log_level_t level, const ucs_log_component_config_t* /*component*/,
                           const char* format, va_list arguments) {
  if (level == UCS_LOG_LEVEL_FATAL) return UCS_LOG_FUNC_RC_CONTINUE;
  if (log::enabled(log::Level::info)) {
    std::array<char, 1024> text{};
    std::vsnprintf(text.data(), text.size(), format, arguments);
    log::info("UCX: {}", text.data());
  }
  return UCS_LOG_FUNC_RC_STOP;
}

/// True when the process's handler of `signal` is code of libucs.
bool handled_by_ucx(int signal) {
  struct sigaction current {};
  if (sigaction(signal, nullptr, &current) != 0) return false;
  void* handler = (current.sa_flags & SA_SIGINFO) != 0 ? reinterpret_cast<void*>(current.sa_sigaction)
                                                       : reinterpret_cast<void*>(current.sa_handler);
  if (handler == nullptr || current.sa_handler == SIG_DFL || current.sa_handler == SIG_IGN) return false;
  Dl_info info{};
  return dladdr(handler, &info) != 0 && info.dli_fname != nullptr &&
         std::string_view(info.dli_fname).find("libucs") != std::string_view::npos;
}

/// UCX's own way back would also remove handlers that the host has set since; those are not UCX's.
void remove_signal_handlers() {
  for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE, SIGABRT}) {
    if (handled_by_ucx(signal)) ucs_debug_disable_signal(signal);
  }
  if (handled_by_ucx(SIGHUP)) ::signal(SIGHUP, SIG_DFL);  // UCX_DEBUG_SIGNO: waits for a debugger
}

}  // namespace

std::vector<Setting> wanted_settings(const PathChoice& choice, const Membership& membership) {
  std::vector<Setting> settings = {
      // One message of kSharedMemoryMessageBytes with its headers is one fragment. Keys are those of UCX's
      // tables,
      // without the prefix that a variable has: UCX takes any key, and ignores what is in no table.
      {"MM_SEG_SIZE", "65000"},
      {"RX_SEG_SIZE", "256K"},  // TCP
      // Buffers are taken from /dev/shm in groups of this many segments (default 512: 33 MB a rank).
      {"MM_RX_BUFS_GROW", "64"},
      // Without it, endpoints that report a dead peer leave shared memory for TCP loopback.
      {"MM_ERROR_HANDLING", "y"},
      {"KEEPALIVE_INTERVAL", "1s"},
  };
  if (!choice.tls.empty()) {
    settings.push_back({"TLS", choice.tls});
  } else if (membership.shares_memory_across_hosts()) {
    // UCX would use that memory, but wakes its peer by a Unix socket, which ends where the network does: a
    // rank that sleeps would never look. On all ranks alike, since both ends of a path must be willing.
    settings.push_back({"TLS", "^sm"});
  }
  // UCX opens a listening port on each interface that it may use: on this one only, and on none where memory
  // is shared anyhow. A list of the user's own may name devices that are no interfaces of the system.
  const bool own_list = choice.path == Path::custom && membership.single_host();
  if (!membership.interface.empty() && choice.path != Path::shared_memory && !own_list) {
    settings.push_back({"NET_DEVICES", membership.interface});
  }
  return settings;
}

Status apply_settings(ucp_config_t* config, std::span<const Setting> settings) {
  for (const auto& [key, value] : settings) {
    if (user_chose(key)) continue;
    if (const auto status = ucp_config_modify(config, key.c_str(), value.c_str()); status != UCS_OK) {
      return ucx_error(fmt::format("setting UCX_{}={}", key, value), status);
    }
  }
  return {};
}

Status check_segment_sizes() {
  for (const char* name : {"UCX_POSIX_SEG_SIZE", "UCX_SYSV_SEG_SIZE", "UCX_MM_SEG_SIZE"}) {
    const char* text = std::getenv(name);
    if (text != nullptr && parse_size(text) >= kSegmentLimitBytes) {
      return {
          ErrorCode::invalid_argument,
          fmt::format("{}={} makes UCX corrupt messages (its queue holds lengths in 16 bits); unset it or "
                      "use at most 65000",
                      name, text)};
    }
  }
  return {};
}

void calm_ucx() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (!user_set("LOG_LEVEL") && !user_set("LOG_FILE")) ucs_log_push_handler(log_line);
    if (!user_set("HANDLE_ERRORS") && !user_set("ERROR_SIGNALS")) remove_signal_handlers();
  });
}

}  // namespace ferrule::transport::ucx
