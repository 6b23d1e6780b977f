#include "errors.hpp"

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace ferrule::python {

namespace {

/// The class lives in Python, where `code` is an ordinary attribute; it is looked up only when something
/// failed.
void raise_in_python(const Failure& failure) {
  const nb::object type = nb::module_::import_("ferrule._errors").attr("FerruleError");
  const std::string_view code = error_code_name(failure.status().code());
  const nb::object error = type(nb::str(failure.what()), nb::str(code.data(), code.size()));
  PyErr_SetObject(type.ptr(), error.ptr());
}

}  // namespace

void register_errors() {
  nb::register_exception_translator([](const std::exception_ptr& pointer, void*) {
    try {
      std::rethrow_exception(pointer);
    } catch (const Failure& failure) {
      raise_in_python(failure);
    }
  });
}

}  // namespace ferrule::python
