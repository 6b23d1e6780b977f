// A key-value store through which ranks find each other. Small values, set once, waited for by others.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "base/deadline.hpp"
#include "ferrule/status.hpp"

namespace ferrule::rendezvous {

/// Thread safe. Values are bytes, at most kMaxValueBytes; keys at most kMaxKeyBytes of printable ASCII.
class Store {
 public:
  static constexpr std::size_t kMaxKeyBytes = 256;
  static constexpr std::size_t kMaxValueBytes = std::size_t{1} << 20;

  virtual ~Store() = default;
  virtual Status set(std::string_view key, std::string_view value) = 0;
  /// Waits until the key exists. At the deadline: `timeout`, naming the key and the store.
  virtual Result<std::string> get(std::string_view key, Deadline deadline) = 0;
  /// E.g. "tcp://10.0.0.1:29400".
  virtual std::string describe() const = 0;
};

}  // namespace ferrule::rendezvous
