#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "errors.hpp"
#include "interrupt.hpp"
#include "objects.hpp"

namespace nb = nanobind;

namespace ferrule::python {

WorkObject::~WorkObject() {
  // The collective goes on, so its memory must stay: the communicator keeps it from here.
  if (flight_ && !flight_->work.done()) {
    nb::cast<CommunicatorObject&>(communicator_).adopt(std::move(*flight_));
  }
}

nb::object WorkObject::wait(std::optional<double> timeout_s) const {
  check(wait_for(flight_->work, to_nanoseconds(timeout_s)));
  return result_;
}

void bind_work(nb::module_& module) {
  nb::class_<WorkObject>(module, "Work",
                         "One collective under way. Keeps the arrays alive that the collective uses.")
      .def("done", &WorkObject::done, "True when the collective has ended, well or not. Never waits.")
      .def("wait", &WorkObject::wait, nb::arg("timeout") = nb::none(),
           "Waits until the collective is done and returns its result array. With a timeout, in seconds, "
           "raises\n"
           "FerruleError ('timeout') once that has passed; the collective goes on. Raises what the "
           "collective\n"
           "failed with. Releases the GIL; Ctrl-C is noticed within a tenth of a second.")
      .def_prop_ro("source", &WorkObject::source,
                   "Of a receive that is done: the rank whose bytes it took; else -1.")
      .def_prop_ro("bytes_sent", &WorkObject::bytes_sent,
                   "Bytes that this rank has sent for it, headers included. Valid when done.")
      .def_prop_ro("algorithm", &WorkObject::algorithm,
                   "What it runs: of interest where the call left it to 'auto'.")
      .def(
          "__repr__",
          [](const WorkObject& work) {
            return std::string("<ferrule.Work ") + (work.done() ? "done>" : "under way>");
          },
          nb::sig("def __repr__(self) -> str"));
}

}  // namespace ferrule::python
