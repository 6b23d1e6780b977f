#include "store.hpp"

#include <algorithm>
#include <cstring>

namespace nb = nanobind;

namespace ferrule::python {

namespace {

// What the library takes for: the key did not appear in time, and: the store failed.
constexpr int kTimedOut = -1;
constexpr int kFailed = 1;

}  // namespace

/// Called from C without the GIL: no exception may leave.
template <class Action>
int StoreBridge::guarded(Action action) {
  const nb::gil_scoped_acquire locked;
  try {
    return action(nb::module_::import_("ferrule._store"));
  } catch (nb::python_error& error) {
    if (!error_) error_.emplace(std::move(error));
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
    if (!error_) error_.emplace();
  }
  return kFailed;
}

int StoreBridge::set(void* context, const char* key, const void* value, size_t bytes) {
  auto& self = *static_cast<StoreBridge*>(context);
  return self.guarded([&](const nb::module_& helper) {
    helper.attr("put")(self.store_, nb::str(key), nb::bytes(value, bytes));
    return 0;
  });
}

int StoreBridge::get(void* context, const char* key, void* value, size_t capacity, size_t* bytes,
                     std::int64_t timeout_ns) {
  auto& self = *static_cast<StoreBridge*>(context);
  return self.guarded([&](const nb::module_& helper) {
    const double timeout_s = static_cast<double>(timeout_ns) * 1e-9;
    const nb::object fetched = helper.attr("fetch")(self.store_, nb::str(key), timeout_s);
    if (fetched.is_none()) return kTimedOut;
    const auto found = nb::cast<nb::bytes>(fetched);
    *bytes = found.size();
    if (value != nullptr) std::memcpy(value, found.c_str(), std::min(capacity, found.size()));
    return 0;
  });
}

}  // namespace ferrule::python
