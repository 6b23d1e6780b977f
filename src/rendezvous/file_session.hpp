// A file rendezvous: rank 0 makes a session in a directory, the others find it. Files of an earlier run,
// whose rank 0 is gone, are never taken for this one's: a session is alive as long as rank 0 holds a lock on
// a file in it.
//
//   <path>/current             name of the newest session, replaced by rename
//   <path>/session-<random>/   alive (locked by rank 0), users (share-locked by the others), one file a key
#pragma once

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>

#include "base/descriptor.hpp"
#include "rendezvous/file_store.hpp"

namespace ferrule::rendezvous {

class FileSession final : public Store {
 public:
  /// Rank 0's. `system` when another job that is still running meets there, or the directory cannot be made.
  /// The destructor waits up to 2 s for the others to be done, then removes the session.
  static Result<std::shared_ptr<FileSession>> host(const std::string& path);
  /// The other ranks'. Waits for rank 0's session; `timeout` at the deadline.
  static Result<std::shared_ptr<FileSession>> find(const std::string& path, Deadline deadline);
  ~FileSession() override;

  Status set(std::string_view key, std::string_view value) override { return store_.set(key, value); }
  Result<std::string> get(std::string_view key, Deadline deadline) override {
    return store_.get(key, deadline);
  }
  std::string describe() const override { return store_.describe(); }

  FileSession(const std::filesystem::path& directory, const std::string& name, bool is_host)
      : directory_(directory), store_(directory, name), is_host_(is_host) {}

 private:
  std::filesystem::path directory_;
  FileStore store_;
  bool is_host_;
  Descriptor alive_;  // the host's
  Descriptor users_;  // the others'
};

}  // namespace ferrule::rendezvous
