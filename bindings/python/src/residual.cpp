#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "errors.hpp"
#include "numpy_array.hpp"
#include "objects.hpp"

namespace nb = nanobind;

namespace ferrule::python {

namespace {

ResidualObject make_residual(std::size_t count) { return {take(Residual::create(count)), count}; }

/// Elements [start, start + count) of a residual; those that it does not have are an error. No count: to the
/// end.
std::span<float> part_of(const ResidualObject& self, std::size_t start, std::optional<std::size_t> count) {
  const std::size_t wanted = count.value_or(start <= self.count ? self.count - start : 0);
  if (start > self.count || wanted > self.count - start) {
    fail(ErrorCode::invalid_argument, "elements " + std::to_string(start) + " to " +
                                          std::to_string(start + wanted) + " are not all in a residual of " +
                                          std::to_string(self.count));
  }
  return self.residual.values().subspan(start, wanted);
}

/// A copy, not a view: a collective swaps the residual's buffer for another, and frees or reuses the old one.
FloatArray copy_of(const ResidualObject& self, std::size_t start, std::optional<std::size_t> count) {
  const std::span<float> values = part_of(self, start, count);
  FloatArray copy = make_float_array(values.size());
  std::ranges::copy(values, copy.data());
  return copy;
}

void assign(ResidualObject& self, const nb::object& values, std::optional<std::size_t> start) {
  const ArrayView view = import_array(values, Access::read, "values");
  // Without a start all values are replaced, so that a shorter array is a mistake.
  if (view.tensor.dtype != DType::f32 || (!start && view.tensor.count != self.count)) {
    fail(ErrorCode::invalid_argument, "values has " + std::to_string(view.tensor.count) + " elements of " +
                                          std::string(dtype_name(view.tensor.dtype)) + "; the residual has " +
                                          std::to_string(self.count) + " of f32");
  }
  const std::span<float> target = part_of(self, start.value_or(0), view.tensor.count);
  if (!target.empty()) std::memcpy(target.data(), view.tensor.data, target.size_bytes());
}

void scale(ResidualObject& self, float factor) {
  for (float& value : self.residual.values()) value *= factor;
}

void copy_from(ResidualObject& self, const ResidualObject& other) {
  if (self.count != other.count) {
    fail(ErrorCode::invalid_argument, "the other residual has " + std::to_string(other.count) +
                                          " elements, this one " + std::to_string(self.count));
  }
  std::ranges::copy(other.residual.values(), self.residual.values().begin());
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
      .def(
          "numpy", &copy_of, nb::arg("start") = 0, nb::arg("count") = nb::none(),
          "A float32 copy of `count` values from `start` on (None: to the end). Not while a collective uses\n"
          "the residual; nor the functions below.")
      .def("assign", &assign, nb::arg("values"), nb::arg("start") = nb::none(),
           "Replaces values by a float32 array: all of them, or with a start as many as the array has.")
      .def("scale", &scale, nb::arg("factor"), nb::call_guard<nb::gil_scoped_release>(),
           "Multiplies all values.")
      .def("copy_from", &copy_from, nb::arg("other"), nb::call_guard<nb::gil_scoped_release>(),
           "Takes the values of a residual of as many elements.")
      .def("__repr__", [](const ResidualObject& self) {
        return "<ferrule.Residual of " + std::to_string(self.count) + " elements>";
      });
}

}  // namespace ferrule::python
