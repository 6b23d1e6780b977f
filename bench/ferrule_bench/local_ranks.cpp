#include "bench/ferrule_bench/local_ranks.hpp"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "bench/ferrule_bench/child_processes.hpp"
#include "bench/ferrule_bench/exit_codes.hpp"
#include "bench/ferrule_bench/runner.hpp"

namespace ferrule::bench {
namespace {

/// What other ranks get to report a rank's death themselves before they are ended.
constexpr int kGraceMs = 3000;

CommunicatorConfig config_of(const Options& options) {
  CommunicatorConfig config;
  config.transport = options.transport;
  config.link = options.link;
  config.fault = options.fault;
  config.timeout = options.timeout;
  return config;
}

/// Prints an error and says which exit code it deserves. `rank` is -1 where it is not known.
int report(int rank, const Status& status) {
  const std::string who = rank < 0 ? "" : fmt::format("rank {}: ", rank);
  fmt::print(stderr, "ferrule-bench: {}{}\n", who, status.text());
  const bool usage = status.code() == ErrorCode::invalid_argument || status.code() == ErrorCode::unsupported;
  return usage ? kExitUsage : kExitFailed;
}

int run_on(Result<Communicator> comm, int rank, const Options& options, const std::string& command_line) {
  if (!comm.ok()) return report(rank, comm.status());
  const auto outcome = run_rank(*comm, options, command_line);
  if (!outcome.ok()) return report(comm->rank(), outcome.status());
  return outcome->passed ? kExitOk : kExitWrong;
}

/// Ranks as threads. One that fails aborts all, or the others would wait for it until the timeout; only the
/// first failure is news.
class RankThreads {
 public:
  RankThreads(std::vector<Communicator> comms, const Options& options, const std::string& command_line)
      : comms_(std::move(comms)), options_(options), command_line_(command_line) {}

  int run() {
    std::vector<int> codes(comms_.size(), kExitOk);
    std::vector<std::thread> threads;
    for (std::size_t rank = 0; rank < codes.size(); ++rank)
      threads.emplace_back([this, rank, &codes] { codes[rank] = run_one(rank); });
    for (std::thread& thread : threads) thread.join();
    return *std::max_element(codes.begin(), codes.end());
  }

 private:
  int run_one(std::size_t rank) {
    const auto outcome = run_rank(comms_[rank], options_, command_line_);
    if (outcome.ok()) return outcome->passed ? kExitOk : kExitWrong;
    const bool first = !failed_.exchange(true);
    for (const Communicator& comm : comms_) comm.abort();
    return first ? report(static_cast<int>(rank), outcome.status()) : kExitOk;
  }

  std::vector<Communicator> comms_;
  const Options& options_;
  const std::string& command_line_;
  std::atomic<bool> failed_{false};
};

int run_threads(const Options& options, const std::string& command_line) {
  auto comms = Communicator::local(options.ranks, config_of(options));
  if (!comms.ok()) return report(-1, comms.status());
  return RankThreads(std::move(*comms), options, command_line).run();
}

/// A folder that only this user can read, for the ranks to meet in.
class MeetingPlace {
 public:
  MeetingPlace() {
    std::string name = (std::filesystem::temp_directory_path() / "ferrule-bench-XXXXXX").string();
    if (mkdtemp(name.data()) != nullptr) folder_ = name;
  }
  ~MeetingPlace() { remove(); }
  MeetingPlace(const MeetingPlace&) = delete;
  MeetingPlace& operator=(const MeetingPlace&) = delete;

  bool ok() const { return !folder_.empty(); }
  std::string rendezvous() const { return "file://" + folder_ + "/rendezvous"; }
  void remove() {
    std::error_code ignored;
    if (ok()) std::filesystem::remove_all(folder_, ignored);
    folder_.clear();
  }

 private:
  std::string folder_;
};

bool is_set(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

/// The ranks know a secret that nobody else does, unless the user has one or the library cannot use it. For
/// the children's environment: before they are forked, and while there are no other threads.
void make_job_secret() {
  if (is_set("FERRULE_JOB_SECRET") || is_set("FERRULE_JOB_SECRET_FILE")) return;
  if (std::string_view(ferruleInfo()).find("authentication: libsodium") == std::string_view::npos) return;
  std::array<unsigned char, 32> bytes{};
  if (getentropy(bytes.data(), bytes.size()) != 0) return;
  std::string text;
  for (const unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  setenv("FERRULE_JOB_SECRET", text.c_str(), 1);
}

int run_processes(const Options& options, const std::string& command_line) {
  MeetingPlace place;
  if (!place.ok())
    return report(
        -1, Status(ErrorCode::system, fmt::format("cannot make a folder for the ranks to meet in: {}; is "
                                                  "TMPDIR writable?",
                                                  std::strerror(errno))));
  make_job_secret();
  const std::string rendezvous = place.rendezvous();
  const auto body = [&](int rank) {
    return run_on(Communicator::connect(rank, options.ranks, rendezvous, config_of(options)), rank, options,
                  command_line);
  };
  return run_child_processes(options.ranks, kGraceMs, body, [&] { place.remove(); });
}

int run_launched(const Options& options, const std::string& command_line) {
  auto comm = Communicator::from_env(config_of(options));
  if (!comm.ok()) {
    const int code = report(-1, comm.status());
    fmt::print(stderr, "ferrule-bench: to start ranks on this machine without a launcher, add --ranks N\n");
    return code;
  }
  return run_on(std::move(comm), -1, options, command_line);
}

}  // namespace

int run_ranks(const Options& options, const std::string& command_line) {
  if (options.ranks == 0) return run_launched(options, command_line);
  return options.transport == "loopback" ? run_threads(options, command_line)
                                         : run_processes(options, command_line);
}

}  // namespace ferrule::bench
