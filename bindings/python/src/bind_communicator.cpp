#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <array>

#include "errors.hpp"
#include "interrupt.hpp"
#include "objects.hpp"
#include "store.hpp"

namespace nb = nanobind;

namespace ferrule::python {

namespace {

using Text = std::optional<std::string>;
using Seconds = std::optional<double>;
using CommunicatorPointer = std::unique_ptr<CommunicatorObject>;

/// A setting's value; `expected` says in the error what it should have been.
template <class T>
T to_value(const std::string& name, nb::handle value, const char* expected) {
  T result{};
  if (!nb::try_cast(value, result)) {
    fail(ErrorCode::invalid_argument,
         name + " must be " + expected + " or None, not " + nb::inst_name(value).c_str());
  }
  return result;
}

std::string to_text(const std::string& name, nb::handle value) {
  return to_value<std::string>(name, value, "a string");
}

CommunicatorConfig to_config(const nb::kwargs& settings) {
  CommunicatorConfig config;
  for (const auto& [key, value] : settings) {
    const auto name = nb::cast<std::string>(key);
    if (value.is_none()) continue;
    if (name == "timeout") {
      config.timeout = to_nanoseconds(to_value<double>(name, value, "a number of seconds")).value();
    } else if (name == "transport") {
      config.transport = to_text(name, value);
    } else if (name == "codec") {
      config.codec = to_text(name, value);
    } else if (name == "algo") {
      config.algorithm = to_text(name, value);
    } else if (name == "link") {
      config.link = to_text(name, value);
    } else if (name == "fault") {
      config.fault = to_text(name, value);
    } else {
      fail(ErrorCode::invalid_argument,
           "no setting is called '" + name + "'; there are transport, codec, algo, link, fault and timeout");
    }
  }
  return config;
}

CommunicatorPointer wrap(Result<Communicator> communicator) {
  return std::make_unique<CommunicatorObject>(take(std::move(communicator)));
}

CommunicatorPointer from_env(const nb::kwargs& settings) {
  const CommunicatorConfig config = to_config(settings);
  return wrap(run_interruptibly([config] { return Communicator::from_env(config); }));
}

CommunicatorPointer connect(int rank, int size, const std::string& rendezvous, const nb::kwargs& settings) {
  const CommunicatorConfig config = to_config(settings);
  return wrap(run_interruptibly(
      [rank, size, rendezvous, config] { return Communicator::connect(rank, size, rendezvous, config); }));
}

nb::list local(int size, const nb::kwargs& settings) {
  const CommunicatorConfig config = to_config(settings);
  auto made = run_interruptibly([size, config] { return Communicator::local(size, config); });
  nb::list list;
  for (Communicator& communicator : take(std::move(made))) {
    list.append(nb::cast(std::make_unique<CommunicatorObject>(std::move(communicator))));
  }
  return list;
}

/// Everything runs on the caller's thread, because the store's Python code does: there Ctrl-C is noticed.
CommunicatorPointer from_store(nb::object store, int rank, int size, const std::string& group,
                               const nb::kwargs& settings) {
  const CommunicatorConfig config = to_config(settings);
  const ferruleConfig_t c_config = config.to_c();
  StoreBridge bridge(std::move(store));
  const ferruleStore_t c_store = bridge.c_store();
  ferruleComm_t handle = nullptr;
  Status status;
  {
    const nb::gil_scoped_release unlocked;
    status = detail::to_status(ferruleCommInitStore(&handle, size, rank, group.c_str(), &c_store, &c_config));
  }
  if (!status.ok()) bridge.rethrow();
  check(status);
  return std::make_unique<CommunicatorObject>(Communicator(handle));
}

nb::object split(const CommunicatorObject& self, int color, int key) {
  auto made = run_interruptibly([native = self.native(), color, key] { return native->split(color, key); });
  Communicator child = take(std::move(made));
  if (child.handle() == nullptr) return nb::none();
  return nb::cast(std::make_unique<CommunicatorObject>(std::move(child)));
}

ferruleResidualPolicy_t to_policy(const std::string& name) {
  if (name == "keep") return ferruleKeepResiduals;
  if (name == "reset") return ferruleResetResiduals;
  fail(ErrorCode::invalid_argument, "residuals is '" + name + "'; there are keep and reset");
}

CommunicatorPointer shrink(const CommunicatorObject& self, const std::string& residuals) {
  const ferruleResidualPolicy_t policy = to_policy(residuals);
  return wrap(run_interruptibly([native = self.native(), policy] { return native->shrink(policy); }));
}

}  // namespace

ReduceOp to_op(const std::string& name) {
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    if (op_name(op) == name) return op;
  }
  fail(ErrorCode::invalid_argument,
       "no operation is called '" + name + "'; there are sum, avg, min, max, prod");
}

namespace {

/// The options of a call, by name: what all_reduce and all_reduce_async share.
AllReduceCall to_call(nb::object array, const std::string& op, const Text& codec, const Text& algo,
                      nb::object residual, Seconds timeout, std::array<std::uint64_t, 3> keys, nb::object out,
                      std::optional<double> weight) {
  AllReduceCall call;
  call.array = std::move(array);
  call.out = std::move(out);
  call.residual = std::move(residual);
  call.op = to_op(op);
  call.options.codec = codec.value_or("");
  // "auto" leaves it to the communicator, whose own default is to choose.
  if (algo && *algo != "auto") call.options.algorithm = *algo;
  call.options.seed = keys[0];
  call.options.step = keys[1];
  call.options.tensor = keys[2];
  call.options.weight = weight;
  if (const auto deadline = to_nanoseconds(timeout)) call.options.timeout = *deadline;
  to_residual(call.residual);  // wrong types are refused here, before anything has started
  return call;
}

nb::object result_of(const AllReduceCall& call) { return call.out.is_none() ? call.array : call.out; }

nb::object all_reduce(CommunicatorObject& self, nb::object array, const std::string& op, const Text& codec,
                      const Text& algo, nb::object residual, Seconds timeout, std::uint64_t seed,
                      std::uint64_t step, std::uint64_t tensor, nb::object out,
                      std::optional<double> weight) {
  const AllReduceCall call = to_call(std::move(array), op, codec, algo, std::move(residual), timeout,
                                     {seed, step, tensor}, std::move(out), weight);
  self.finish(self.start(call));
  return result_of(call);
}

std::unique_ptr<WorkObject> all_reduce_async(nb::object self, nb::object array, const std::string& op,
                                             const Text& codec, const Text& algo, nb::object residual,
                                             Seconds timeout, std::uint64_t seed, std::uint64_t step,
                                             std::uint64_t tensor, nb::object out,
                                             std::optional<double> weight) {
  const AllReduceCall call = to_call(std::move(array), op, codec, algo, std::move(residual), timeout,
                                     {seed, step, tensor}, std::move(out), weight);
  Flight flight = nb::cast<CommunicatorObject&>(self).start(call);
  return std::make_unique<WorkObject>(std::move(self), std::move(flight), result_of(call));
}

nb::dict stats_of(const CommunicatorObject& self) {
  const ferruleStats_t stats = self.stats();
  nb::dict dict;
  dict["collectives"] = stats.collectives;
  dict["bytes_sent"] = stats.bytes_sent;
  dict["bytes_received"] = stats.bytes_received;
  dict["messages_sent"] = stats.messages_sent;
  dict["messages_received"] = stats.messages_received;
  dict["encode_s"] = static_cast<double>(stats.encode_ns) * 1e-9;
  dict["decode_s"] = static_cast<double>(stats.decode_ns) * 1e-9;
  dict["wait_s"] = static_cast<double>(stats.wait_ns) * 1e-9;
  dict["scratch_bytes"] = stats.scratch_bytes;
  return dict;
}

std::string describe(const CommunicatorObject& self) {
  return "<ferrule.Communicator rank " + std::to_string(self.rank()) + " of " + std::to_string(self.size()) +
         ", " + self.transport() + (self.is_open() ? ">" : ", closed>");
}

#define FERRULE_CONFIG_SIGNATURE                                                      \
  "transport: str | None = None, codec: str | None = None, algo: str | None = None, " \
  "link: str | None = None, fault: str | None = None, timeout: float | None = None"

constexpr const char* kConfigDoc =
    "\n\nSettings, None meaning \"from the FERRULE_* variables\": transport ('auto', 'ucx', 'loopback'), "
    "codec (the\n"
    "default of all_reduce for float sums and averages), algo, link (a throttle such as '1gbit,1ms'), fault\n"
    "(planted faults, for tests), timeout (seconds: deadline of a collective, and of making the "
    "communicator).";

std::string with_config(const char* text) { return std::string(text) + kConfigDoc; }

using Class = nb::class_<CommunicatorObject>;

void bind_makers(Class& type) {
  type.def_static(
          "from_env", &from_env, nb::arg("settings"),
          nb::sig("def from_env(*, " FERRULE_CONFIG_SIGNATURE ") -> Communicator"),
          with_config(
              "Rank, size and meeting point from the launcher: torchrun, Open MPI, MPICH, Slurm, or RANK,\n"
              "WORLD_SIZE, MASTER_ADDR and MASTER_PORT. Blocks until all ranks are there.")
              .c_str())
      .def_static(
          "connect", &connect, nb::arg("rank"), nb::arg("size"), nb::arg("rendezvous"), nb::arg("settings"),
          nb::sig("def connect(rank: int, size: int, rendezvous: str, *, " FERRULE_CONFIG_SIGNATURE
                  ") -> Communicator"),
          with_config("Meets the other ranks at 'tcp://host:port' (rank 0 serves it) or 'file:///path'.")
              .c_str())
      .def_static(
          "local", &local, nb::arg("size"), nb::arg("settings"),
          nb::sig("def local(size: int, *, " FERRULE_CONFIG_SIGNATURE ") -> list[Communicator]"),
          with_config("`size` ranks in this process, each to be driven by a thread of its own.").c_str())
      .def_static(
          "from_store", &from_store, nb::arg("store"), nb::arg("rank"), nb::arg("size"), nb::arg("group"),
          nb::arg("settings"),
          nb::sig(
              "def from_store(store: object, rank: int, size: int, group: str, *, " FERRULE_CONFIG_SIGNATURE
              ") -> Communicator"),
          with_config(
              "Through a key-value store with set(key, value) and get(key), such as torch's: get returns\n"
              "None or raises KeyError for an absent key, or the store has check(keys), as torch's have.\n"
              "`group` must be the same on all ranks, and new for each communicator.")
              .c_str());
}

#define FERRULE_ALL_REDUCE_ARGUMENTS                                                                        \
  nb::arg("array"), nb::arg("op") = "sum", nb::arg("codec") = nb::none(), nb::arg("algo") = "auto",         \
                    nb::arg("residual") = nb::none(), nb::arg("timeout") = nb::none(), nb::arg("seed") = 0, \
                    nb::arg("step") = 0, nb::arg("tensor") = 0, nb::arg("out") = nb::none(),                \
                    nb::arg("weight") = nb::none()
#define FERRULE_ALL_REDUCE_SIGNATURE                                                               \
  "(self, array: object, op: str = 'sum', codec: str | None = None, algo: str | None = 'auto', "   \
  "residual: Residual | None = None, timeout: float | None = None, seed: int = 0, step: int = 0, " \
  "tensor: int = 0, out: object = None, weight: float | None = None)"

void bind_collectives(Class& type) {
  type.def("all_reduce", &all_reduce, FERRULE_ALL_REDUCE_ARGUMENTS,
           nb::sig("def all_reduce" FERRULE_ALL_REDUCE_SIGNATURE " -> object"),
           "Combines `array` over all ranks, in place unless `out` is given; returns the result array. "
           "Afterwards\n"
           "all ranks hold the same bits.\n\n"
           "array: host memory with DLPack or the buffer protocol (NumPy, torch CPU), contiguous and "
           "writable;\n"
           "  float32, float64, float16, bfloat16, int32, int64 or uint8. out: the same; array may then be "
           "read-only.\n"
           "op: sum, avg (one division, after the sum), min, max, prod.\n"
           "codec: e.g. 'int4:block=128'; 'none' is exact; None is the communicator's default. Lossy codecs: "
           "sum\n"
           "  and avg of float32, float16 and bfloat16. 'none/int4': one for each level of the topology, "
           "innermost "
           "first;\n"
           "  algo is 'hierarchical' then.\n"
           "algo: 'auto' (the communicator's choice) or a name from ferrule.algorithms().\n"
           "residual: a Residual of as many elements, for error feedback.\n"
           "timeout: seconds; None is the communicator's.\n"
           "seed, step, tensor: key the random bits of stochastic rounding.\n"
           "weight: of this rank, in a weighted mean (op 'avg'): all ranks give one, or none does.\n\n"
           "Ctrl-C aborts the communicator, because the ranks could no longer agree on what comes next.")
      .def("all_reduce_async", &all_reduce_async, FERRULE_ALL_REDUCE_ARGUMENTS,
           nb::sig("def all_reduce_async" FERRULE_ALL_REDUCE_SIGNATURE " -> Work"),
           "As all_reduce, but returns at once. The array must not be touched until the Work is done.");
}

}  // namespace

void bind_descendants(Class& type) {
  type.def("split", &split, nb::arg("color"), nb::arg("key") = 0,
           nb::sig("def split(self, color: int, key: int = 0) -> Communicator | None"),
           "The ranks of the same color as a communicator, ordered by (key, rank here); None for a negative "
           "color.\n"
           "A collective: all ranks call it. Both communicators can be used at the same time.")
      .def("shrink", &shrink, nb::arg("residuals") = "keep",
           nb::sig("def shrink(self, residuals: str = 'keep') -> Communicator"),
           "After 'peer_lost', 'timeout', 'aborted' or 'corrupt': a communicator of those that are left, in "
           "their old\n"
           "order. All survivors call it, within the timeout; after an error it may be called again. Close "
           "this "
           "one\n"
           "afterwards: a rank that has closed it before counts as gone. residuals: 'keep' each rank's own, "
           "or "
           "'reset'\n"
           "them to zero at their first use.");
}

void bind_communicator(nb::module_& module) {
  Class type(
      module, "Communicator",
      "A group of ranks. All ranks must issue its collectives in the same order. A context manager: closes\n"
      "at the end.");
  bind_makers(type);
  bind_collectives(type);
  bind_other_collectives(type);
  bind_descendants(type);
  type.def_prop_ro("rank", &CommunicatorObject::rank)
      .def_prop_ro("size", &CommunicatorObject::size)
      .def_prop_ro("transport", &CommunicatorObject::transport, "What moves the bytes, e.g. 'ucx+throttle'.")
      .def_prop_ro("closed", [](const CommunicatorObject& self) { return !self.is_open(); })
      .def("stats", &stats_of, nb::sig("def stats(self) -> dict[str, int | float]"),
           "Totals as counted at the transport: collectives, bytes and messages sent and received (headers\n"
           "included), and seconds in encodes, in decodes and waiting for the wire.")
      .def("abort", &CommunicatorObject::abort,
           "Ends all pending and later collectives with FerruleError ('aborted'). From any thread.")
      .def("close", &CommunicatorObject::close,
           "Waits for pending work up to the timeout, then frees everything.")
      .def(
          "__enter__", [](nb::object self) { return self; }, nb::sig("def __enter__(self) -> Communicator"))
      .def(
          "__exit__", [](CommunicatorObject& self, const nb::args&) { self.close(); },
          nb::sig("def __exit__(self, *exc: object) -> None"))
      .def("__repr__", &describe);
}

}  // namespace ferrule::python
