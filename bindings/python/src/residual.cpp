#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>

#include "errors.hpp"
#include "numpy_array.hpp"
#include "objects.hpp"

namespace nb = nanobind;

namespace ferrule::python {

namespace {

ResidualObject make_residual(std::size_t count) { return {take(Residual::create(count)), count}; }

/// A copy, not a view: a collective swaps the residual's buffer for another, and frees or reuses the old one.
FloatArray copy_of(const ResidualObject& self) {
  FloatArray copy = make_float_array(self.count);
  std::ranges::copy(self.residual.values(), copy.data());
  return copy;
}

void assign(ResidualObject& self, const nb::object& values) {
  const ArrayView view = import_array(values, Access::read, "values");
  if (view.tensor.dtype != DType::f32 || view.tensor.count != self.count) {
    fail(ErrorCode::invalid_argument, "values has " + std::to_string(view.tensor.count) + " elements of " +
                                          std::string(dtype_name(view.tensor.dtype)) + "; the residual has " +
                                          std::to_string(self.count) + " of f32");
  }
  if (self.count > 0) std::memcpy(self.residual.values().data(), view.tensor.data, view.tensor.bytes());
}

}  // namespace

ResidualObject* to_residual(nb::handle argument) {
  if (argument.is_none()) return nullptr;
  ResidualObject* residual = nullptr;
  if (!nb::try_cast(argument, residual)) {
    fail(ErrorCode::invalid_argument,
         std::string("residual must be a ferrule.Residual or None, not ") + nb::inst_name(argument).c_str());
  }
  return residual;
}

void bind_residual(nb::module_& module) {
  nb::class_<ResidualObject>(
      module, "Residual",
      "What lossy encodes have left behind (error feedback): one float32 an element, zero\n"
      "at first. Give the same one with the same tensor, step after step.")
      .def(
          "__init__",
          [](ResidualObject* self, std::size_t count) { new (self) ResidualObject(make_residual(count)); },
          nb::arg("count"))
      .def("__len__", [](const ResidualObject& self) { return self.count; })
      .def("numpy", &copy_of,
           "A float32 copy of the current values. Not while a collective uses the residual.")
      .def("assign", &assign, nb::arg("values"),
           "Replaces all values by a float32 array of as many elements. Not while a collective uses the\n"
           "residual.")
      .def("__repr__", [](const ResidualObject& self) {
        return "<ferrule.Residual of " + std::to_string(self.count) + " elements>";
      });
}

}  // namespace ferrule::python
