// New NumPy arrays of float32, for results. NumPy is imported when the first one is made.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstddef>

namespace ferrule::python {

using FloatArray = nanobind::ndarray<nanobind::numpy, float, nanobind::ndim<1>>;

/// Uninitialised; freed with the array.
inline FloatArray make_float_array(std::size_t count) {
  auto* values = new float[count > 0 ? count : 1];
  const nanobind::capsule owner(values, [](void* data) noexcept { delete[] static_cast<float*>(data); });
  return FloatArray(values, {count}, owner);
}

}  // namespace ferrule::python
