#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <limits>
#include <span>
#include <string>

#include "errors.hpp"
#include "numpy_array.hpp"
#include "objects.hpp"

namespace nb = nanobind;

namespace ferrule::python {

namespace {

nb::bytes encode(const Codec& codec, const nb::object& array, const nb::object& residual, std::uint64_t seed,
                 std::uint64_t step) {
  const ArrayView view = import_array(array, Access::read, "array");
  const ResidualObject* given = to_residual(residual);
  const Residual* state = given == nullptr ? nullptr : &given->residual;
  const std::size_t bytes = take(codec.encoded_bytes(view.tensor.count, view.tensor.dtype));
  // Written in place; nobody else has seen the object yet.
  PyObject* fresh = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(bytes));
  if (fresh == nullptr) throw nb::python_error();
  auto result = nb::steal<nb::bytes>(fresh);
  const std::span out(reinterpret_cast<std::byte*>(PyBytes_AsString(fresh)), bytes);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = codec.encode(view.tensor, out, state, seed, step);
  }
  check(status);
  return result;
}

/// The bytes of any contiguous buffer, e.g. bytes, bytearray or an array of uint8.
std::span<const std::byte> bytes_of(const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& data) {
  return {static_cast<const std::byte*>(data.data()), data.nbytes()};
}

FloatArray decode(const Codec& codec, const nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>& data,
                  std::size_t count) {
  const std::span<const std::byte> bytes = bytes_of(data);
  // Checked before `count` floats are allocated for it.
  const std::size_t expected = take(codec.encoded_bytes(count));
  if (expected != bytes.size()) {
    fail(ErrorCode::invalid_argument, std::to_string(count) + " elements of " + codec.spec() + " take " +
                                          std::to_string(expected) + " bytes, not " +
                                          std::to_string(bytes.size()));
  }
  FloatArray out = make_float_array(count);
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = codec.decode(bytes, TensorView(out.data(), count));
  }
  check(status);
  return out;
}

double error_bound(const Codec& codec, const nb::object& array) {
  return take(codec.error_bound(import_array(array, Access::read, "array").tensor));
}

}  // namespace

void bind_codec(nb::module_& module) {
  nb::class_<Codec>(module, "Codec", "A codec by itself, for files, experiments and tests.")
      .def(
          "__init__",
          [](Codec* self, const std::string& spec) { new (self) Codec(take(Codec::create(spec))); },
          nb::arg("spec"), "From its text, such as 'int4', 'int8:block=256' or 'int4:round=stochastic'.")
      .def_prop_ro("spec", &Codec::spec, "Canonical text, all parameters written out.")
      .def_prop_ro("block", &Codec::block, "Elements that share a scale.")
      .def("encode", &encode, nb::arg("array"), nb::arg("residual") = nb::none(), nb::arg("seed") = 0,
           nb::arg("step") = 0,
           "The array's encoded bytes. With a Residual of the same length, adds it first and stores in it "
           "what\n"
           "the encoding leaves behind. seed and step key the random bits of stochastic rounding.")
      .def("decode", &decode, nb::arg("data"), nb::arg("count"),
           "`count` values as a new float32 NumPy array. Any bytes of the right length are safe.")
      .def(
          "max_encoded_bytes",
          [](const Codec& codec, std::size_t count) { return take(codec.encoded_bytes(count)); },
          nb::arg("count"), "Bytes that `count` float32 elements take at most (every codec so far: exactly).")
      .def("error_bound", &error_bound, nb::arg("array"),
           "The largest absolute error that encoding and decoding these (finite) values may make.")
      .def("__repr__", [](const Codec& codec) { return "<ferrule.Codec " + codec.spec() + ">"; });
}

}  // namespace ferrule::python
