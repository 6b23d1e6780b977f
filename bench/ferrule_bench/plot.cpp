#include "bench/ferrule_bench/plot.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <vector>

extern char** environ;

namespace ferrule::bench {
namespace {

/// Runs a program and waits for it. False if it could not be run or failed. `quiet` drops what it prints.
bool succeeds(std::vector<std::string> words, bool quiet) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  // Results only on stdout: whatever the helper says goes to stderr.
  posix_spawn_file_actions_adddup2(&actions, STDERR_FILENO, STDOUT_FILENO);
  if (quiet) {
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  }
  pid_t pid = 0;
  const int error = posix_spawnp(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return false;
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/// The script beside an installed program (without its folder), or in the source tree.
std::string find_script(const std::filesystem::path& name) {
  std::error_code error;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto installed = program.parent_path().parent_path() / "share" / "ferrule" / name.filename();
  if (!error && std::filesystem::exists(installed, error)) return installed.string();
  const std::filesystem::path source = FERRULE_SOURCE_DIR "/bench" / name;
  return std::filesystem::exists(source, error) ? source.string() : "";
}

std::vector<std::string> python_candidates() {
  std::vector<std::string> candidates;
  if (const char* environment = std::getenv("VIRTUAL_ENV"))
    candidates.push_back(std::string(environment) + "/bin/python");
  candidates.push_back("python3");
  candidates.push_back(FERRULE_SOURCE_DIR "/.venv/bin/python");
  return candidates;
}

}  // namespace

Status plot(const std::string& json_path, const std::string& picture_path, const std::string& script_name) {
  const std::string script = find_script(script_name);
  if (script.empty())
    return Status(ErrorCode::system,
                  "cannot plot: bench/" + script_name + " is not installed beside this program");
  const auto candidates = python_candidates();
  for (const std::string& python : candidates) {
    if (!succeeds({python, "-c", "import matplotlib"}, true)) continue;
    if (succeeds({python, script, json_path, "-o", picture_path}, false)) return {};
    return Status(ErrorCode::system, fmt::format("cannot plot: '{} {} {} -o {}' failed", python, script,
                                                 json_path, picture_path));
  }
  return Status(
      ErrorCode::system,
      fmt::format("cannot plot: no Python with matplotlib among {}. The results are not affected; to draw "
                  "them later: pip install matplotlib, then python3 {} {} -o {}",
                  fmt::join(candidates, ", "), script, json_path, picture_path));
}

}  // namespace ferrule::bench
