#include "transport/ucx_processes.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/deadline.hpp"

extern char** environ;

namespace ferrule::transport::testing {
namespace {

using std::chrono::milliseconds;

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// A reader sees the whole value or none.
void write_file(const std::string& path, std::string_view value) {
  std::ofstream(path + ".part", std::ios::binary) << value;
  std::filesystem::rename(path + ".part", path);
}

std::string errors_path(const std::string& folder, std::int32_t rank) {
  return folder + "/stderr." + std::to_string(rank);
}

pid_t spawn(const RankProcess& process, const std::vector<std::string>& extra) {
  std::vector<std::string> arguments = {"/proc/self/exe",
                                        "--rank",
                                        process.scenario,
                                        process.folder,
                                        std::to_string(process.rank),
                                        std::to_string(process.ranks)};
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::vector<std::string> additions = extra;
  std::vector<char*> envp;
  for (auto& addition : additions) envp.push_back(addition.data());  // the first of a name counts
  for (char** entry = environ; *entry != nullptr; ++entry) envp.push_back(*entry);
  envp.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, errors_path(process.folder, process.rank).c_str(),
                                   O_CREAT | O_WRONLY | O_TRUNC, 0600);
  pid_t pid = -1;
  if (::posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), envp.data()) != 0) pid = -1;
  posix_spawn_file_actions_destroy(&actions);
  return pid;
}

int wait_for_exit(pid_t pid, Deadline deadline) {
  int status = 0;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (deadline.passed()) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TemporaryFolder::TemporaryFolder() {
  std::string pattern = std::filesystem::temp_directory_path() / "ferrule_ucx_XXXXXX";
  if (::mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

Exchange file_exchange(const std::string& folder, std::int32_t rank, std::int32_t ranks, Deadline deadline) {
  return [=](std::string_view name, std::string_view mine) -> Result<std::vector<std::string>> {
    const auto path = [&](std::int32_t of) {
      return folder + "/" + std::string(name) + "." + std::to_string(of);
    };
    write_file(path(rank), mine);
    std::vector<std::string> values;
    for (std::int32_t of = 0; of < ranks; ++of) {
      while (!std::filesystem::exists(path(of))) {
        if (deadline.passed()) return Status(ErrorCode::timeout, "no value of rank " + std::to_string(of));
        std::this_thread::sleep_for(milliseconds(2));
      }
      values.push_back(read_file(path(of)));
    }
    return values;
  };
}

RankProcess RankProcess::from_arguments(int argc, char** argv) {
  RankProcess process;
  process.rank = -1;
  if (argc == 6 && std::string_view(argv[1]) == "--rank") {
    process.scenario = argv[2];
    process.folder = argv[3];
    process.rank = std::atoi(argv[4]);
    process.ranks = std::atoi(argv[5]);
  }
  return process;
}

Membership RankProcess::membership(Deadline deadline) const {
  Membership membership;
  membership.rank = rank;
  membership.communicator = 0xfeed;
  const auto pids = exchange(deadline)("pid", std::to_string(::getpid()));
  if (!pids.ok()) return membership;
  for (const auto& pid : *pids) {
    membership.peers.push_back({"testhost", "one-host", std::atoll(pid.c_str()), "127.0.0.1"});
  }
  return membership;
}

std::vector<RankResult> run_processes(const std::string& scenario, std::int32_t ranks,
                                      const std::vector<std::string>& environment,
                                      std::chrono::seconds limit) {
  const TemporaryFolder folder;
  const auto deadline = Deadline::after(limit);
  std::vector<RankResult> results(static_cast<std::size_t>(ranks));
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    results[static_cast<std::size_t>(rank)].pid = spawn({scenario, folder.path(), rank, ranks}, environment);
  }
  for (std::int32_t rank = 0; rank < ranks; ++rank) {
    auto& result = results[static_cast<std::size_t>(rank)];
    if (result.pid > 0) result.exit_code = wait_for_exit(result.pid, deadline);
    result.errors = read_file(errors_path(folder.path(), rank));
  }
  return results;
}

}  // namespace ferrule::transport::testing
