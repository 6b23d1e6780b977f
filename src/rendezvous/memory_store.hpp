// A store in this process, and the checks that every store makes of keys and values.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

/// `invalid_argument` unless the key is 1 to kMaxKeyBytes of printable ASCII.
Status check_key(std::string_view key);
/// check_key, and the value is at most kMaxValueBytes.
Status check_entry(std::string_view key, std::string_view value);
/// The error of a get at its deadline.
Status key_timeout(std::string_view key, std::string_view store);
/// The error of a second set with another value.
Status key_conflict(std::string_view key, std::string_view store);

/// Setting a key again is `mismatch`, unless to the same value.
class MemoryStore final : public Store {
 public:
  /// All entries together; more is refused, so that a faulty peer cannot fill this process's memory.
  static constexpr std::size_t kMaxTotalBytes = std::size_t{256} << 20;
  /// What an entry takes beside its key and value, about: it limits how many there can be.
  static constexpr std::size_t kEntryBytes = 128;

  explicit MemoryStore(std::size_t max_total_bytes = kMaxTotalBytes) : max_total_bytes_(max_total_bytes) {}

  Status set(std::string_view key, std::string_view value) override;
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  std::string describe() const override { return "memory"; }

  /// Without waiting.
  std::optional<std::string> find(std::string_view key) const;
  /// Frees all keys that start with `prefix`.
  void forget(std::string_view prefix);

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string, std::less<>> values_;
  std::size_t max_total_bytes_;
  std::size_t total_bytes_ = 0;
};

}  // namespace ferrule::rendezvous
