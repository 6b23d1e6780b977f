#include "bench/ferrule_bench/meeting_place.hpp"

#include <fmt/format.h>
#include <stdlib.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace ferrule::bench {

MeetingPlace::MeetingPlace(const std::string& program) {
  std::string name = (std::filesystem::temp_directory_path() / (program + "-XXXXXX")).string();
  if (mkdtemp(name.data()) != nullptr) {
    folder_ = name;
    return;
  }
  status_ = Status(ErrorCode::system,
                   fmt::format("cannot make a folder for the ranks to meet in: {}; is TMPDIR writable?",
                               std::strerror(errno)));
}

void MeetingPlace::remove() {
  std::error_code ignored;
  if (!folder_.empty()) std::filesystem::remove_all(folder_, ignored);
  folder_.clear();
}

}  // namespace ferrule::bench
