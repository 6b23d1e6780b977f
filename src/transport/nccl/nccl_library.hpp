// Finding NCCL: in a library that is named, already in the process (a framework's), in the system, in the
// toolkit, or in a Python wheel.
#pragma once

#include <string>
#include <vector>

#include "ferrule/status.hpp"
#include "transport/nccl/nccl_api.hpp"

namespace ferrule::transport::nccl {

/// ncclCommInitRankConfig, with which a communicator can be made by a deadline, came with it.
inline constexpr int kLeastVersion = 21400;

struct Library {
  Api api;
  int version = 0;    ///< as NCCL counts: 2.28.9 is 22809
  std::string where;  ///< the file
};

/// "2.28.9"
std::string version_text(int version);
/// The files to try, in this order. `named`: that one alone.
std::vector<std::string> candidates(const std::string& named);
/// The first of them that is an NCCL. `unsupported`: none is there, or it is too old; says what was tried.
/// What was loaded stays loaded.
Result<Library> load(const std::vector<std::string>& files);
/// That of this process, as FERRULE_NCCL_LIBRARY says; looked for once.
Result<const Library*> library();
/// In place of it, for tests; null: look again. Before any communicator is made.
void replace_library(const Library* library);

}  // namespace ferrule::transport::nccl
