// A store in front of another, whatever that is: each value carries a tag that only ranks with the job's
// secret can make, so that a value of anybody else is an error and not believed. Without a secret values pass
// as they are, but sealed ones are recognised: the ranks that set them have a secret.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/secret_key.hpp"
#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

class SealedStore final : public Store {
 public:
  /// Bytes that a seal adds to a value.
  static constexpr std::size_t kSealBytes = 8 + SecretKey::kTagBytes;

  SealedStore(std::shared_ptr<Store> store, std::optional<SecretKey> key)
      : store_(std::move(store)), key_(std::move(key)) {}

  Status set(std::string_view key, std::string_view value) override;
  /// `mismatch` for a value that was not sealed with this key, for this key of the store.
  Result<std::string> get(std::string_view key, Deadline deadline) override;
  std::string describe() const override { return store_->describe(); }

 private:
  std::shared_ptr<Store> store_;
  std::optional<SecretKey> key_;
};

}  // namespace ferrule::rendezvous
