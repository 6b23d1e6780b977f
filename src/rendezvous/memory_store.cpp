#include "rendezvous/memory_store.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace ferrule::rendezvous {

Status check_key(std::string_view key) {
  const bool printable = std::ranges::all_of(key, [](char c) { return c > ' ' && c <= '~'; });
  if (!key.empty() && key.size() <= Store::kMaxKeyBytes && printable) return Status();
  return Status(
      ErrorCode::invalid_argument,
      fmt::format("a store's key must be 1 to {} printable ASCII characters without blanks, this one has "
                  "{} bytes{}",
                  Store::kMaxKeyBytes, key.size(), printable ? "" : ", not all printable"));
}

Status check_entry(std::string_view key, std::string_view value) {
  FERRULE_RETURN_IF_ERROR(check_key(key));
  if (value.size() <= Store::kMaxValueBytes) return Status();
  return Status(ErrorCode::invalid_argument,
                fmt::format("the value of '{}' has {} bytes; a store takes at most {}", key, value.size(),
                            Store::kMaxValueBytes));
}

Status key_timeout(std::string_view key, std::string_view store) {
  return Status(ErrorCode::timeout, fmt::format("nobody set '{}' at {} before the deadline", key, store));
}

Status key_conflict(std::string_view key, std::string_view store) {
  return Status(ErrorCode::mismatch,
                fmt::format("'{}' at {} was set before, to another value; keys are set once", key, store));
}

Status MemoryStore::set(std::string_view key, std::string_view value) {
  FERRULE_RETURN_IF_ERROR(check_entry(key, value));
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  if (found != values_.end()) {
    return found->second == value ? Status() : key_conflict(key, describe());
  }
  const std::size_t added = kEntryBytes + key.size() + value.size();
  if (added > max_total_bytes_ - total_bytes_) {
    return Status(ErrorCode::system,
                  fmt::format("the store is full ({} bytes): '{}' was not set", max_total_bytes_, key));
  }
  total_bytes_ += added;
  values_.emplace(key, value);
  changed_.notify_all();
  return Status();
}

Result<std::string> MemoryStore::get(std::string_view key, Deadline deadline) {
  FERRULE_RETURN_IF_ERROR(check_key(key));
  std::unique_lock lock(mutex_);
  auto found = values_.find(key);
  while (found == values_.end()) {
    // wait_until(time_point::max()) overflows in some libraries: an hour at a time is as good.
    const auto wake = earlier(deadline, Deadline::after(std::chrono::hours(1))).when();
    if (changed_.wait_until(lock, wake) == std::cv_status::timeout && deadline.passed()) {
      found = values_.find(key);
      if (found == values_.end()) return key_timeout(key, describe());
      break;
    }
    found = values_.find(key);
  }
  return found->second;
}

std::optional<std::string> MemoryStore::find(std::string_view key) const {
  const std::lock_guard lock(mutex_);
  const auto found = values_.find(key);
  if (found == values_.end()) return std::nullopt;
  return found->second;
}

void MemoryStore::forget(std::string_view prefix) {
  const std::lock_guard lock(mutex_);
  auto at = values_.lower_bound(prefix);
  while (at != values_.end() && at->first.starts_with(prefix)) {
    total_bytes_ -= kEntryBytes + at->first.size() + at->second.size();
    at = values_.erase(at);
  }
}

}  // namespace ferrule::rendezvous
