// The methods of ferrule.Communicator beside all_reduce.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "collectives.hpp"
#include "errors.hpp"
#include "interrupt.hpp"

namespace nb = nanobind;

namespace ferrule::python {

namespace {

using Counts = std::optional<std::vector<std::size_t>>;

/// What **options may say.
void read_options(CollectiveCall& call, const nb::kwargs& options) {
  for (const auto& [key, value] : options) {
    const auto name = nb::cast<std::string>(key);
    if (value.is_none()) continue;
    if (name == "codec") {
      call.options.codec = nb::cast<std::string>(value);
    } else if (name == "algo") {
      const auto algorithm = nb::cast<std::string>(value);
      if (algorithm != "auto") call.options.algorithm = algorithm;
    } else if (name == "timeout") {
      call.options.timeout = to_nanoseconds(nb::cast<double>(value)).value();
    } else if (name == "residual") {
      call.residual = nb::borrow(value);
      to_residual(call.residual);
    } else if (name == "seed") {
      call.options.seed = nb::cast<std::uint64_t>(value);
    } else if (name == "step") {
      call.options.step = nb::cast<std::uint64_t>(value);
    } else if (name == "tensor") {
      call.options.tensor = nb::cast<std::uint64_t>(value);
    } else {
      fail(ErrorCode::invalid_argument,
           "no option is called '" + name +
               "'; there are codec, algo, residual, timeout, seed, step and tensor");
    }
  }
}

/// Starts it; waits, unless it is to be a Work. `result` is what it returns when done.
nb::object run(nb::object self, CollectiveCall call, bool later, nb::object result) {
  auto& communicator = nb::cast<CommunicatorObject&>(self);
  Flight flight = start_collective(communicator, std::move(call));
  if (later) {
    return nb::cast(std::make_unique<WorkObject>(std::move(self), std::move(flight), std::move(result)));
  }
  communicator.finish(std::move(flight));
  return result;
}

template <bool later>
nb::object reduce_scatter(nb::object self, nb::object array, nb::object out, const std::string& op,
                          Counts counts, const nb::kwargs& options) {
  CollectiveCall call{Kind::reduce_scatter, std::move(array), out};
  call.op = to_op(op);
  call.counts = std::move(counts);
  read_options(call, options);
  return run(std::move(self), std::move(call), later, out);
}

template <bool later>
nb::object all_gather(nb::object self, nb::object array, nb::object out, Counts counts,
                      const nb::kwargs& options) {
  CollectiveCall call{Kind::all_gather, std::move(array), out};
  call.counts = std::move(counts);
  read_options(call, options);
  return run(std::move(self), std::move(call), later, out);
}

template <bool later>
nb::object broadcast(nb::object self, nb::object array, int root, const nb::kwargs& options) {
  CollectiveCall call{Kind::broadcast, nb::none(), array};
  call.peer = root;
  read_options(call, options);
  return run(std::move(self), std::move(call), later, array);
}

template <bool later>
nb::object reduce(nb::object self, nb::object array, int root, const std::string& op, nb::object out,
                  const nb::kwargs& options) {
  const bool is_root = nb::cast<CommunicatorObject&>(self).rank() == root;
  const nb::object recv = out.is_none() && is_root ? array : out;
  CollectiveCall call{Kind::reduce, array, recv};
  call.peer = root;
  call.op = to_op(op);
  read_options(call, options);
  return run(std::move(self), std::move(call), later, is_root ? recv : array);
}

template <bool later>
nb::object gather(nb::object self, nb::object array, nb::object out, int root, Counts counts,
                  const nb::kwargs& options) {
  CollectiveCall call{Kind::gather, std::move(array), out};
  call.peer = root;
  call.counts = std::move(counts);
  read_options(call, options);
  return run(std::move(self), std::move(call), later, out);
}

template <bool later>
nb::object scatter(nb::object self, nb::object array, nb::object out, int root, Counts counts,
                   const nb::kwargs& options) {
  CollectiveCall call{Kind::scatter, std::move(array), out};
  call.peer = root;
  call.counts = std::move(counts);
  read_options(call, options);
  return run(std::move(self), std::move(call), later, out);
}

template <bool later>
nb::object all_to_all(nb::object self, nb::object array, nb::object out, Counts send_counts,
                      Counts recv_counts, const nb::kwargs& options) {
  CollectiveCall call{Kind::all_to_all, std::move(array), out};
  call.counts = std::move(send_counts);
  call.recv_counts = std::move(recv_counts);
  read_options(call, options);
  return run(std::move(self), std::move(call), later, out);
}

template <bool later>
nb::object barrier(nb::object self, const nb::kwargs& options) {
  CollectiveCall call;
  read_options(call, options);
  return run(std::move(self), std::move(call), later, nb::none());
}

template <bool later>
nb::object send(nb::object self, nb::object array, int peer, std::uint32_t tag, const nb::kwargs& options) {
  CollectiveCall call{Kind::send, array};
  call.peer = peer;
  call.tag = tag;
  read_options(call, options);
  return run(std::move(self), std::move(call), later, array);
}

CollectiveCall receive(nb::object array, std::optional<int> peer, std::uint32_t tag,
                       const nb::kwargs& options) {
  CollectiveCall call{Kind::recv, nb::none(), std::move(array)};
  call.peer = peer.value_or(FERRULE_ANY_RANK);
  call.tag = tag;
  read_options(call, options);
  return call;
}

int recv(nb::object self, nb::object array, std::optional<int> peer, std::uint32_t tag,
         const nb::kwargs& options) {
  auto& communicator = nb::cast<CommunicatorObject&>(self);
  Flight flight = start_collective(communicator, receive(std::move(array), peer, tag, options));
  return communicator.finish(std::move(flight)).source();
}

nb::object recv_async(nb::object self, nb::object array, std::optional<int> peer, std::uint32_t tag,
                      const nb::kwargs& options) {
  return run(std::move(self), receive(array, peer, tag, options), true, array);
}

#define FERRULE_OPTIONS_SIGNATURE                                                           \
  "codec: str | None = None, algo: str | None = 'auto', residual: Residual | None = None, " \
  "timeout: float | None = None, seed: int = 0, step: int = 0, tensor: int = 0"
#define FERRULE_EXACT_SIGNATURE "algo: str | None = 'auto', timeout: float | None = None"

constexpr const char* kLater =
    "As the one without _async, but returns at once; arrays must not be touched until then.";

using Class = nb::class_<CommunicatorObject>;

void bind_parts(Class& type) {
  const auto none = nb::none();
  type.def("reduce_scatter", &reduce_scatter<false>, nb::arg("array"), nb::arg("out"), nb::arg("op") = "sum",
           nb::arg("counts") = none, nb::arg("options"),
           nb::sig("def reduce_scatter(self, array: object, out: object, op: str = 'sum', counts: "
                   "Sequence[int] | None = None, *, " FERRULE_OPTIONS_SIGNATURE ") -> object"),
           "out = this rank's part of the combination of `array` over all ranks; returns out. counts: "
           "elements "
           "of\neach rank's part, where they are not alike. The residual has as many elements as array.")
      .def("reduce_scatter_async", &reduce_scatter<true>, nb::arg("array"), nb::arg("out"),
           nb::arg("op") = "sum", nb::arg("counts") = none, nb::arg("options"),
           nb::sig("def reduce_scatter_async(self, array: object, out: object, op: str = 'sum', counts: "
                   "Sequence[int] | None = None, *, " FERRULE_OPTIONS_SIGNATURE ") -> Work"),
           kLater)
      .def("all_gather", &all_gather<false>, nb::arg("array"), nb::arg("out"), nb::arg("counts") = none,
           nb::arg("options"),
           nb::sig("def all_gather(self, array: object, out: object, counts: Sequence[int] | None = None, "
                   "*, " FERRULE_OPTIONS_SIGNATURE ") -> object"),
           "out = the arrays of all ranks, one after another; returns out. Exact unless `codec` is given.")
      .def("all_gather_async", &all_gather<true>, nb::arg("array"), nb::arg("out"), nb::arg("counts") = none,
           nb::arg("options"),
           nb::sig("def all_gather_async(self, array: object, out: object, counts: Sequence[int] | None = "
                   "None, *, " FERRULE_OPTIONS_SIGNATURE ") -> Work"),
           kLater)
      .def("gather", &gather<false>, nb::arg("array"), nb::arg("out") = none, nb::arg("root") = 0,
           nb::arg("counts") = none, nb::arg("options"),
           nb::sig("def gather(self, array: object, out: object = None, root: int = 0, counts: "
                   "Sequence[int] | None = None, *, " FERRULE_EXACT_SIGNATURE ") -> object"),
           "The root's out = the arrays of all ranks. Always exact, any element type.")
      .def("gather_async", &gather<true>, nb::arg("array"), nb::arg("out") = none, nb::arg("root") = 0,
           nb::arg("counts") = none, nb::arg("options"),
           nb::sig("def gather_async(self, array: object, out: object = None, root: int = 0, counts: "
                   "Sequence[int] | None = None, *, " FERRULE_EXACT_SIGNATURE ") -> Work"),
           kLater)
      .def("scatter", &scatter<false>, nb::arg("array").none(), nb::arg("out"), nb::arg("root") = 0,
           nb::arg("counts") = none, nb::arg("options"),
           nb::sig("def scatter(self, array: object | None, out: object, root: int = 0, counts: "
                   "Sequence[int] | None = None, *, " FERRULE_EXACT_SIGNATURE ") -> object"),
           "out = this rank's part of the root's array, which is None elsewhere. Always exact, any element "
           "type.")
      .def("scatter_async", &scatter<true>, nb::arg("array").none(), nb::arg("out"), nb::arg("root") = 0,
           nb::arg("counts") = none, nb::arg("options"),
           nb::sig("def scatter_async(self, array: object | None, out: object, root: int = 0, counts: "
                   "Sequence[int] | None = None, *, " FERRULE_EXACT_SIGNATURE ") -> Work"),
           kLater)
      .def("all_to_all", &all_to_all<false>, nb::arg("array"), nb::arg("out"), nb::arg("send_counts") = none,
           nb::arg("recv_counts") = none, nb::arg("options"),
           nb::sig("def all_to_all(self, array: object, out: object, send_counts: Sequence[int] | None = "
                   "None, recv_counts: Sequence[int] | None = None, *, " FERRULE_EXACT_SIGNATURE
                   ") -> object"),
           "Part d of array goes to rank d, part s of out comes from rank s. Always exact, any element type.")
      .def("all_to_all_async", &all_to_all<true>, nb::arg("array"), nb::arg("out"),
           nb::arg("send_counts") = none, nb::arg("recv_counts") = none, nb::arg("options"),
           nb::sig("def all_to_all_async(self, array: object, out: object, send_counts: Sequence[int] | None "
                   "= None, recv_counts: Sequence[int] | None = None, *, " FERRULE_EXACT_SIGNATURE
                   ") -> Work"),
           kLater);
}

void bind_wholes(Class& type) {
  const auto none = nb::none();
  type.def("broadcast", &broadcast<false>, nb::arg("array"), nb::arg("root") = 0, nb::arg("options"),
           nb::sig("def broadcast(self, array: object, root: int = 0, *, " FERRULE_EXACT_SIGNATURE
                   ") -> object"),
           "The root's array, on all ranks, in place. Always exact, any element type.")
      .def("broadcast_async", &broadcast<true>, nb::arg("array"), nb::arg("root") = 0, nb::arg("options"),
           nb::sig("def broadcast_async(self, array: object, root: int = 0, *, " FERRULE_EXACT_SIGNATURE
                   ") -> Work"),
           kLater)
      .def("reduce", &reduce<false>, nb::arg("array"), nb::arg("root") = 0, nb::arg("op") = "sum",
           nb::arg("out") = none, nb::arg("options"),
           nb::sig("def reduce(self, array: object, root: int = 0, op: str = 'sum', out: object = None, "
                   "*, " FERRULE_EXACT_SIGNATURE ") -> object"),
           "Combines `array` over all ranks into the root's out, or in place there. Always exact.")
      .def(
          "reduce_async", &reduce<true>, nb::arg("array"), nb::arg("root") = 0, nb::arg("op") = "sum",
          nb::arg("out") = none, nb::arg("options"),
          nb::sig("def reduce_async(self, array: object, root: int = 0, op: str = 'sum', out: object = None, "
                  "*, " FERRULE_EXACT_SIGNATURE ") -> Work"),
          kLater)
      .def("barrier", &barrier<false>, nb::arg("options"),
           nb::sig("def barrier(self, *, timeout: float | None = None) -> None"),
           "Returns when all ranks have begun it.")
      .def("barrier_async", &barrier<true>, nb::arg("options"),
           nb::sig("def barrier_async(self, *, timeout: float | None = None) -> Work"), kLater);
}

void bind_transfers(Class& type) {
  type.def("send", &send<false>, nb::arg("array"), nb::arg("peer"), nb::arg("tag") = 0, nb::arg("options"),
           nb::sig(
               "def send(self, array: object, peer: int, tag: int = 0, *, timeout: float | None = None) -> "
               "object"),
           "Sends to one rank, which receives as many bytes with the same tag. Beside collectives, in no "
           "order "
           "with\nthem. Always exact, any element type.")
      .def("send_async", &send<true>, nb::arg("array"), nb::arg("peer"), nb::arg("tag") = 0,
           nb::arg("options"),
           nb::sig("def send_async(self, array: object, peer: int, tag: int = 0, *, timeout: float | None = "
                   "None) -> Work"),
           kLater)
      .def("recv", &recv, nb::arg("array"), nb::arg("peer") = nb::none(), nb::arg("tag") = 0,
           nb::arg("options"),
           nb::sig("def recv(self, array: object, peer: int | None = None, tag: int = 0, *, timeout: float | "
                   "None = None) -> int"),
           "Receives from one rank, or from any (None); returns which it was.")
      .def("recv_async", &recv_async, nb::arg("array"), nb::arg("peer") = nb::none(), nb::arg("tag") = 0,
           nb::arg("options"),
           nb::sig("def recv_async(self, array: object, peer: int | None = None, tag: int = 0, *, timeout: "
                   "float | None = None) -> Work"),
           kLater);
}

}  // namespace

void bind_other_collectives(Class& type) {
  bind_parts(type);
  bind_wholes(type);
  bind_transfers(type);
}

}  // namespace ferrule::python
