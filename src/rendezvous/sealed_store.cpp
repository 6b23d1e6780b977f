#include "rendezvous/sealed_store.hpp"

#include <fmt/format.h>

#include "rendezvous/job_secret.hpp"

namespace ferrule::rendezvous {
namespace {

// No value of Ferrule's own starts like this: those start with a count of fields or of parts.
constexpr std::string_view kMark =
    "\xff"
    "FSEAL1\n";
static_assert(kMark.size() + SecretKey::kTagBytes == SealedStore::kSealBytes);
constexpr std::string_view kDomain = "ferrule store value 1";

Status refused(std::string_view key, const Store& store, std::string_view why) {
  return Status(ErrorCode::mismatch,
                fmt::format("'{}' at {} {}; {}", key, store.describe(), why, kSecretAdvice));
}

}  // namespace

Status SealedStore::set(std::string_view key, std::string_view value) {
  if (!key_) return store_->set(key, value);
  return store_->set(key, std::string(kMark) + key_->tag(kDomain, {key, value}) + std::string(value));
}

Result<std::string> SealedStore::get(std::string_view key, Deadline deadline) {
  Result<std::string> value = store_->get(key, deadline);
  if (!value.ok()) return value;
  const bool sealed = value->starts_with(kMark) && value->size() >= kSealBytes;
  if (!key_) {
    if (!sealed) return value;
    return refused(key, *store_, "was set by a rank that has a job secret, and this rank has none");
  }
  if (!sealed) return refused(key, *store_, "was set by somebody without the job's secret");
  const std::string_view tag = std::string_view(*value).substr(kMark.size(), SecretKey::kTagBytes);
  if (!key_->accepts(tag, kDomain, {key, std::string_view(*value).substr(kSealBytes)})) {
    return refused(key, *store_, "was set by somebody with another job secret");
  }
  return value->substr(kSealBytes);
}

}  // namespace ferrule::rendezvous
