#include "communicator/c_store.hpp"

#include <fmt/format.h>

#include <string>

#include "rendezvous/wrapped_stores.hpp"

namespace ferrule::communicator {
namespace {

constexpr int kTimedOut = -1;

Status set_value(const ferruleStore_t& store, std::string_view key, std::string_view value) {
  const int result = store.set(store.context, std::string(key).c_str(), value.data(), value.size());
  if (result == 0) return {};
  return Status(ErrorCode::system,
                fmt::format("the given store refused to set '{}' (its set returned {})", key, result));
}

Result<std::string> get_value(const ferruleStore_t& store, std::string_view key,
                              std::chrono::nanoseconds timeout) {
  std::string value(std::size_t{4} << 10, '\0');
  for (int attempt = 0; attempt < 2; ++attempt) {
    std::size_t bytes = 0;
    const int result = store.get(store.context, std::string(key).c_str(), value.data(), value.size(), &bytes,
                                 timeout.count());
    if (result == kTimedOut) return Status(ErrorCode::timeout, "");
    if (result != 0) {
      return Status(ErrorCode::system,
                    fmt::format("the given store could not get '{}' (its get returned {})", key, result));
    }
    if (bytes > rendezvous::Store::kMaxValueBytes) break;
    const bool fits = bytes <= value.size();
    value.resize(bytes);
    if (fits) return value;
  }
  return Status(ErrorCode::system, fmt::format("the given store's value of '{}' is too long", key));
}

}  // namespace

std::shared_ptr<rendezvous::Store> wrap_store(const ferruleStore_t& store) {
  return std::make_shared<rendezvous::CallbackStore>(
      [store](std::string_view key, std::string_view value) { return set_value(store, key, value); },
      [store](std::string_view key, std::chrono::nanoseconds timeout) {
        return get_value(store, key, timeout);
      },
      "the caller's store");
}

}  // namespace ferrule::communicator
