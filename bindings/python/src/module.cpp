// ferrule._ferrule: the public C++ API for Python. Links no other Python package; NumPy is imported when an
// array of its is asked for, torch never.
#include <nanobind/nanobind.h>

#include <string>
#include <string_view>

#include "errors.hpp"
#include "objects.hpp"

namespace nb = nanobind;

namespace ferrule::python {

namespace {

nb::list split(std::string_view names) {
  nb::list list;
  while (!names.empty()) {
    const std::size_t comma = names.find(',');
    const std::string_view name = names.substr(0, comma);
    list.append(nb::str(name.data(), name.size()));
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
  }
  return list;
}

void bind_tables(nb::module_& module) {
  module.def(
      "codecs", [] { return split(ferruleCodecNames()); }, nb::sig("def codecs() -> list[str]"),
      "Names of the codecs in this build.");
  module.def(
      "algorithms", [] { return split(ferruleAlgorithmNames()); }, nb::sig("def algorithms() -> list[str]"),
      "Names of the algorithms in this build.");
  module.def(
      "transports", [] { return split(ferruleTransportNames()); }, nb::sig("def transports() -> list[str]"),
      "Names of the transports in this build.");
  module.def(
      "library_info", [] { return nb::str(ferruleInfo()); }, nb::sig("def library_info() -> str"),
      "The native library's part of `python -m ferrule.info`.");
}

}  // namespace

}  // namespace ferrule::python

NB_MODULE(_ferrule, module) {
  using namespace ferrule::python;
  module.doc() = "Compressed all-reduce (native part of the package ferrule).";
  module.attr("__version__") = ferruleVersion();
  // torch keeps a backend alive until the process ends; that is no leak.
  nanobind::set_leak_warnings(false);
  register_errors();
  bind_tables(module);
  bind_residual(module);
  bind_codec(module);
  bind_work(module);
  bind_communicator(module);
}
