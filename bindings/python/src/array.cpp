#include "array.hpp"

#include <optional>
#include <string>

#include "errors.hpp"

namespace nb = nanobind;

namespace ferrule::python {

namespace {

using Anything = nb::ndarray<nb::ro>;

std::string name_of_type(nb::handle object) { return nb::type_name(object.type()).c_str(); }

std::optional<DType> to_dtype(nb::dlpack::dtype dtype) {
  using Code = nb::dlpack::dtype_code;
  if (dtype.lanes != 1) return std::nullopt;
  const auto is = [&](Code code, int bits) {
    return dtype.code == static_cast<std::uint8_t>(code) && dtype.bits == bits;
  };
  if (is(Code::Float, 32)) return DType::f32;
  if (is(Code::Float, 64)) return DType::f64;
  if (is(Code::Float, 16)) return DType::f16;
  if (is(Code::Bfloat, 16)) return DType::bf16;
  if (is(Code::Int, 32)) return DType::i32;
  if (is(Code::Int, 64)) return DType::i64;
  if (is(Code::UInt, 8)) return DType::u8;
  return std::nullopt;
}

std::string describe(nb::dlpack::dtype dtype) {
  return "DLPack code " + std::to_string(dtype.code) + ", " + std::to_string(dtype.bits) + " bits";
}

/// Dimensions of one element may have any stride.
bool is_contiguous(const Anything& array) {
  std::int64_t expected = 1;
  for (std::size_t i = array.ndim(); i-- > 0;) {
    const auto extent = static_cast<std::int64_t>(array.shape(i));
    if (extent != 1 && array.stride(i) != expected) return false;
    expected *= extent;
  }
  return true;
}

/// Refused for every version of torch: some would hand such a tensor over, and a change in place would then
/// go past autograd.
void check_no_gradient(nb::handle object, const std::string& what) {
  if (nb::getattr(object, "requires_grad", nb::bool_(false)).equal(nb::bool_(true))) {
    fail(ErrorCode::invalid_argument,
         what + " is a tensor that requires a gradient; pass tensor.detach() (it shares the memory)");
  }
}

void check_writable(nb::handle object, const std::string& what) {
  nb::ndarray<> writable;
  if (!nb::try_cast<nb::ndarray<>>(object, writable, false)) {
    fail(ErrorCode::invalid_argument, what + " is read-only; pass a writable copy, or the result in out=");
  }
}

}  // namespace

namespace {

// All but the element type.
ArrayView import_any(nb::handle object, Access access, const char* what) {
  ArrayView view;
  check_no_gradient(object, what);
  if (!nb::try_cast<Anything>(object, view.owner, false)) {
    fail(ErrorCode::invalid_argument, std::string(what) + " is a " + name_of_type(object) +
                                          ", which is no dense array (DLPack or buffer protocol needed)");
  }
  const Anything& array = view.owner;
  const int device = array.device_type();
  if (device != nb::device::cpu::value && device != nb::device::cuda_host::value) {
    fail(ErrorCode::unsupported, std::string(what) + " is not in host memory (DLPack device type " +
                                     std::to_string(device) + "); copy it to the CPU first");
  }
  if (array.size() > 0 && !is_contiguous(array)) {
    fail(ErrorCode::invalid_argument,
         std::string(what) + " is not contiguous in C order; pass a contiguous copy");
  }
  if (access == Access::write) check_writable(object, what);
  return view;
}

}  // namespace

ArrayView import_array(nb::handle object, Access access, const char* what) {
  ArrayView view = import_any(object, access, what);
  const std::optional<DType> dtype = to_dtype(view.owner.dtype());
  if (!dtype) {
    fail(ErrorCode::unsupported, std::string(what) + " has an element type that is not supported (" +
                                     describe(view.owner.dtype()) +
                                     "); use float32, float64, float16, bfloat16, int32, int64 or uint8");
  }
  // The constness was checked: a writable import of the same object succeeded.
  view.tensor = TensorView(const_cast<void*>(view.owner.data()), view.owner.size(), *dtype);
  return view;
}

ArrayView import_bytes(nb::handle object, Access access, const char* what) {
  ArrayView view = import_any(object, access, what);
  view.tensor = TensorView(const_cast<void*>(view.owner.data()), view.owner.nbytes(), DType::u8);
  return view;
}

}  // namespace ferrule::python
