// Stores in front of others: one that adds a prefix to keys, and one made of two functions of the caller's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "rendezvous/memory_store.hpp"
#include "rendezvous/store.hpp"

namespace ferrule::rendezvous {

/// Keeps groups that share a store apart: key "k" becomes "<group>/k".
class PrefixStore final : public Store {
 public:
  PrefixStore(std::shared_ptr<Store> store, std::string group)
      : store_(std::move(store)), prefix_(std::move(group) + "/") {}

  Status set(std::string_view key, std::string_view value) override {
    return store_->set(prefix_ + std::string(key), value);
  }
  Result<std::string> get(std::string_view key, Deadline deadline) override {
    return store_->get(prefix_ + std::string(key), deadline);
  }
  std::string describe() const override { return store_->describe(); }

 private:
  std::shared_ptr<Store> store_;
  std::string prefix_;
};

/// A store that C or Python provides. `get` waits at most the given time and returns `timeout` after it. The
/// functions may be called from any thread that uses the communicator while it is made. They need not refuse
/// a second set of a key.
class CallbackStore final : public Store {
 public:
  using Set = std::function<Status(std::string_view key, std::string_view value)>;
  using Get = std::function<Result<std::string>(std::string_view key, std::chrono::nanoseconds timeout)>;

  CallbackStore(Set set_value, Get get_value, std::string name)
      : set_(std::move(set_value)), get_(std::move(get_value)), name_(std::move(name)) {}

  Status set(std::string_view key, std::string_view value) override {
    FERRULE_RETURN_IF_ERROR(check_entry(key, value));
    return set_(key, value);
  }
  Result<std::string> get(std::string_view key, Deadline deadline) override {
    FERRULE_RETURN_IF_ERROR(check_key(key));
    Result<std::string> value = get_(key, deadline.left());
    if (value.ok() && value->size() > kMaxValueBytes) return check_entry(key, *value);
    if (!value.ok() && value.status().code() == ErrorCode::timeout) return key_timeout(key, name_);
    return value;
  }
  std::string describe() const override { return name_; }

 private:
  Set set_;
  Get get_;
  std::string name_;
};

}  // namespace ferrule::rendezvous
