#include "collectives.hpp"

#include <algorithm>

#include "errors.hpp"

namespace nb = nanobind;

namespace ferrule::python {

namespace {

bool computes(const CollectiveCall& call) {
  const bool reduces = call.kind == Kind::reduce_scatter || call.kind == Kind::reduce;
  const bool compresses = call.kind == Kind::all_gather && !call.options.codec.empty();
  return reduces || compresses;
}

ArrayView import_or_none(nb::handle object, Access access, const char* what, bool as_bytes) {
  if (object.is_none()) return {};
  return as_bytes ? import_bytes(object, access, what) : import_array(object, access, what);
}

// Counts are of elements; of bytes where elements are moved as bytes.
void scale(std::optional<std::vector<std::size_t>>& counts, std::size_t by) {
  if (!counts) return;
  for (std::size_t& count : *counts) count *= by;
}

std::size_t item_bytes(const ArrayView& view) { return view.owner.is_valid() ? view.owner.itemsize() : 0; }

void check_parts(const TensorView& part, const TensorView& whole, int size, const char* names) {
  const std::size_t due = part.count * static_cast<std::size_t>(size);
  if (whole.count == due && part.dtype == whole.dtype) return;
  fail(ErrorCode::invalid_argument, std::string(names) + ": the part has " + std::to_string(part.count) +
                                        " elements, the whole " + std::to_string(whole.count) +
                                        "; it must be as many for each of " + std::to_string(size) +
                                        " ranks, of one type");
}

void check_total(const std::vector<std::size_t>& counts, const TensorView& whole, const char* name) {
  std::size_t total = 0;
  for (const std::size_t count : counts) total += count;
  if (total == whole.count) return;
  fail(ErrorCode::invalid_argument, std::string(name) + " has " + std::to_string(whole.count) +
                                        " elements, and the counts add up to " + std::to_string(total));
}

Status reduce_scatter(const Communicator& comm, const CollectiveCall& call, const Flight& flight,
                      Work* work) {
  const TensorView& recv = flight.recv.tensor;
  if (call.counts) {
    check_total(*call.counts, flight.send.tensor, "array");
    return comm.reduce_scatter_v(flight.send.tensor.data, recv, *call.counts, call.op, call.options, work);
  }
  check_parts(recv, flight.send.tensor, comm.size(), "array and out");
  return comm.reduce_scatter(flight.send.tensor.data, recv, call.op, call.options, work);
}

Status all_gather(const Communicator& comm, const CollectiveCall& call, const Flight& flight, Work* work) {
  const TensorView& send = flight.send.tensor;
  if (call.counts) {
    check_total(*call.counts, flight.recv.tensor, "out");
    return comm.all_gather_v(send, flight.recv.tensor.data, *call.counts, call.options, work);
  }
  check_parts(send, flight.recv.tensor, comm.size(), "array and out");
  return comm.all_gather(send, flight.recv.tensor.data, call.options, work);
}

Status gather(const Communicator& comm, const CollectiveCall& call, const Flight& flight, Work* work) {
  const bool root = comm.rank() == call.peer;
  const TensorView& send = flight.send.tensor;
  if (call.counts) {
    if (root) check_total(*call.counts, flight.recv.tensor, "out");
    return comm.gather_v(send, flight.recv.tensor.data, *call.counts, call.peer, call.options, work);
  }
  if (root) check_parts(send, flight.recv.tensor, comm.size(), "array and out");
  return comm.gather(send, flight.recv.tensor.data, call.peer, call.options, work);
}

Status scatter(const Communicator& comm, const CollectiveCall& call, const Flight& flight, Work* work) {
  const bool root = comm.rank() == call.peer;
  const TensorView& recv = flight.recv.tensor;
  if (call.counts) {
    if (root) check_total(*call.counts, flight.send.tensor, "array");
    return comm.scatter_v(flight.send.tensor.data, recv, *call.counts, call.peer, call.options, work);
  }
  if (root) check_parts(recv, flight.send.tensor, comm.size(), "out and array");
  return comm.scatter(flight.send.tensor.data, recv, call.peer, call.options, work);
}

Status all_to_all(const Communicator& comm, const CollectiveCall& call, const Flight& flight, Work* work) {
  const TensorView& send = flight.send.tensor;
  const TensorView& recv = flight.recv.tensor;
  if (!call.counts && !call.recv_counts) {
    if (send.count != recv.count) {
      fail(ErrorCode::invalid_argument, "array and out of all_to_all differ in size; pass counts for that");
    }
    return comm.all_to_all(send.data, recv, call.options, work);
  }
  if (!call.counts || !call.recv_counts) {
    fail(ErrorCode::invalid_argument, "all_to_all takes send_counts and recv_counts, or neither");
  }
  check_total(*call.counts, send, "array");
  check_total(*call.recv_counts, recv, "out");
  return comm.all_to_all_v(send.data, *call.counts, recv, *call.recv_counts, call.options, work);
}

Status reduce(const Communicator& comm, const CollectiveCall& call, const Flight& flight, Work* work) {
  const TensorView& recv = flight.recv.tensor;
  const bool differs = recv.count != flight.send.tensor.count || recv.dtype != flight.send.tensor.dtype;
  if (comm.rank() == call.peer && differs) {
    fail(ErrorCode::invalid_argument, "array and out of reduce must have the same size and type");
  }
  return comm.reduce(flight.send.tensor, recv.data, call.peer, call.op, call.options, work);
}

Status start(const Communicator& comm, const CollectiveCall& call, const Flight& flight, Work* work) {
  switch (call.kind) {
    case Kind::reduce_scatter:
      return reduce_scatter(comm, call, flight, work);
    case Kind::all_gather:
      return all_gather(comm, call, flight, work);
    case Kind::broadcast:
      return comm.broadcast(flight.recv.tensor, call.peer, call.options, work);
    case Kind::reduce:
      return reduce(comm, call, flight, work);
    case Kind::gather:
      return gather(comm, call, flight, work);
    case Kind::scatter:
      return scatter(comm, call, flight, work);
    case Kind::all_to_all:
      return all_to_all(comm, call, flight, work);
    case Kind::barrier:
      return comm.barrier(call.options, work);
    case Kind::send:
      return comm.send(flight.send.tensor, call.peer, call.tag, call.options, work);
    case Kind::recv:
      return comm.recv(flight.recv.tensor, call.peer, call.tag, call.options, work);
  }
  return {};
}

}  // namespace

Flight start_collective(const CommunicatorObject& communicator, CollectiveCall call) {
  const std::shared_ptr<Communicator> native = communicator.native();
  const bool as_bytes = !computes(call);
  Flight flight{Work(), import_or_none(call.send, Access::read, "array", as_bytes),
                import_or_none(call.recv, Access::write, "out", as_bytes), call.residual};
  if (ResidualObject* given = to_residual(call.residual)) call.options.residual = &given->residual;
  if (as_bytes) {
    const std::size_t bytes = std::max(item_bytes(flight.send), item_bytes(flight.recv));
    scale(call.counts, bytes);
    scale(call.recv_counts, bytes);
  }
  Work work;
  const Status status = [&] {
    const nb::gil_scoped_release unlocked;
    return start(*native, call, flight, &work);
  }();
  check(status);
  flight.work = std::move(work);
  return flight;
}

}  // namespace ferrule::python
