// A Python key-value store (e.g. torch's Store) as the store through which ranks meet.
#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "ferrule/ferrule.h"

namespace ferrule::python {

/// Must outlive the call that is given its c_store(). The first exception of the store's is kept, so that the
/// caller sees that rather than "the store failed".
class StoreBridge {
 public:
  explicit StoreBridge(nanobind::object store) : store_(std::move(store)) {}

  ferruleStore_t c_store() { return {this, &StoreBridge::set, &StoreBridge::get}; }
  /// Throws what the store raised, if it did. Needs the GIL.
  void rethrow() const {
    if (error_) throw *error_;
  }

 private:
  static int set(void* context, const char* key, const void* value, size_t bytes);
  static int get(void* context, const char* key, void* value, size_t capacity, size_t* bytes,
                 std::int64_t timeout_ns);

  template <class Action>
  int guarded(Action action);

  nanobind::object store_;
  std::optional<nanobind::python_error> error_;
};

}  // namespace ferrule::python
