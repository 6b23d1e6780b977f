// A store in a directory: one file a key, written whole and then linked under its name, found by polling.
// Works on any file system that all ranks see, NFS included.
#pragma once

#include <filesystem>
#include <string>

#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

class FileStore final : public Store {
 public:
  /// The directory must exist. `name` is what describe() says.
  FileStore(std::filesystem::path directory, std::string name)
      : directory_(std::move(directory)), name_(std::move(name)) {}

  /// `mismatch` if the key has another value already.
  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  std::string describe() const override { return name_; }

 private:
  std::filesystem::path path_of(std::string_view key) const;
  /// The value; `timeout` when the file is not there (yet).
  Result<std::string> read(std::string_view key) const;

  std::filesystem::path directory_;
  std::string name_;
};

}  // namespace ferrule::rendezvous
