#include <algorithm>

#include "errors.hpp"
#include "interrupt.hpp"
#include "objects.hpp"

namespace nb = nanobind;

namespace ferrule::python {

CommunicatorObject::CommunicatorObject(Communicator communicator)
    : native_(std::make_shared<Communicator>(std::move(communicator))),
      rank_(native_->rank()),
      size_(native_->size()),
      transport_(native_->transport()) {}

std::shared_ptr<Communicator> CommunicatorObject::open() const {
  if (!native_) fail(ErrorCode::invalid_argument, "the communicator is closed");
  return native_;
}

ferruleStats_t CommunicatorObject::stats() const { return native_ ? native_->stats() : last_stats_; }

void CommunicatorObject::abort() {
  if (!native_) return;
  const std::shared_ptr<Communicator> native = native_;
  const nb::gil_scoped_release unlocked;
  native->abort();
}

void CommunicatorObject::close() {
  if (!native_) return;
  last_stats_ = native_->stats();
  std::shared_ptr<Communicator> last = std::move(native_);
  native_ = nullptr;
  {
    // The other ranks of a local communicator may need the GIL to get done what this one waits for.
    const nb::gil_scoped_release unlocked;
    last.reset();
  }
  adopted_.clear();
}

Flight CommunicatorObject::start(const AllReduceCall& call) {
  const std::shared_ptr<Communicator> native = open();
  const bool in_place = call.out.is_none();
  ArrayView recv = import_array(in_place ? call.array : call.out, Access::write, in_place ? "array" : "out");
  ArrayView send = in_place ? recv : import_array(call.array, Access::read, "array");
  if (send.tensor.count != recv.tensor.count || send.tensor.dtype != recv.tensor.dtype) {
    fail(ErrorCode::invalid_argument, "array has " + std::to_string(send.tensor.count) + " elements of " +
                                          std::string(dtype_name(send.tensor.dtype)) + ", out has " +
                                          std::to_string(recv.tensor.count) + " of " +
                                          std::string(dtype_name(recv.tensor.dtype)) + "; both must agree");
  }
  AllReduceOptions options = call.options;
  if (ResidualObject* given = to_residual(call.residual)) options.residual = &given->residual;
  Result<Work> work = [&] {
    const nb::gil_scoped_release unlocked;
    return native->all_reduce_async(send.tensor.data, recv.tensor, call.op, options);
  }();
  return Flight{take(std::move(work)), std::move(send), std::move(recv), call.residual};
}

Work CommunicatorObject::finish(Flight flight) {
  try {
    check(wait_for(flight.work, std::nullopt));
  } catch (const nb::python_error&) {
    abort();
    {
      const nb::gil_scoped_release unlocked;
      static_cast<void>(flight.work.wait());
    }
    throw;
  }
  return std::move(flight.work);
}

void CommunicatorObject::adopt(Flight flight) {
  std::erase_if(adopted_, [](const Flight& old) { return old.work.done(); });
  if (!flight.work.done() && native_) adopted_.push_back(std::move(flight));
}

}  // namespace ferrule::python
