// Ranks as processes: a test program starts copies of itself, each of which runs one scenario as one rank.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "transport/registry.hpp"

namespace ferrule::transport::testing {

/// Removed with its content on destruction.
class TemporaryFolder {
 public:
  TemporaryFolder();
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Values as files of a folder that all ranks see.
Exchange file_exchange(const std::string& folder, std::int32_t rank, std::int32_t ranks, Deadline deadline);

/// What a process that is a rank knows.
struct RankProcess {
  std::string scenario;
  std::string folder;
  std::int32_t rank = 0;
  std::int32_t ranks = 0;

  /// Reads the command line that run_processes() gives; rank -1 when this process is none.
  static RankProcess from_arguments(int argc, char** argv);
  Exchange exchange(Deadline deadline) const { return file_exchange(folder, rank, ranks, deadline); }
  /// Host, pid and the rest of every rank, exchanged.
  Membership membership(Deadline deadline) const;
};

struct RankResult {
  pid_t pid = 0;
  int exit_code =
      -1;  ///< 128 + n when it was killed by signal n; -1 when it had to be killed at the deadline
  std::string errors;  ///< its stderr
};

/// Starts `ranks` copies of this program with `environment` ("NAME=value") added, waits for them and gives
/// their ends.
std::vector<RankResult> run_processes(const std::string& scenario, std::int32_t ranks,
                                      const std::vector<std::string>& environment,
                                      std::chrono::seconds limit);

}  // namespace ferrule::transport::testing
