// Arrays of other libraries (anything with DLPack or the buffer protocol), as tensors of ours.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include "ferrule/tensor_view.hpp"

namespace ferrule::python {

/// A tensor and what keeps its memory alive. Never a copy.
struct ArrayView {
  TensorView tensor;
  nanobind::ndarray<nanobind::ro> owner;
};

enum class Access { read, write };

/// Throws Failure when the object is no array, is not contiguous host memory, has another element type, or is
/// read-only where Access::write is asked for. `what` names the argument in the text.
ArrayView import_array(nanobind::handle object, Access access, const char* what);
/// The same for any element type, as bytes.
ArrayView import_bytes(nanobind::handle object, Access access, const char* what);

}  // namespace ferrule::python
