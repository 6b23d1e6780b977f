// The objects behind ferrule.Communicator, ferrule.Work and ferrule.Residual.
//
// Threads: each method is called with the GIL held; those that block release it.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "array.hpp"
#include "ferrule/ferrule.hpp"

namespace ferrule::python {

struct ResidualObject {
  Residual residual;
  std::size_t count;
};

/// The Residual that an argument is; nullptr for None. Anything else is an error that names its type.
ResidualObject* to_residual(nanobind::handle argument);

/// A collective under way, with all memory that it reads or writes.
struct Flight {
  Work work;
  ArrayView send;
  ArrayView recv;
  nanobind::object residual;
};

/// The arguments of one all-reduce, as Python gives them.
struct AllReduceCall {
  nanobind::object array;
  nanobind::object out;
  nanobind::object residual;
  ReduceOp op = ReduceOp::sum;
  AllReduceOptions options;
};

class CommunicatorObject {
 public:
  explicit CommunicatorObject(Communicator communicator);
  ~CommunicatorObject() { close(); }
  CommunicatorObject(const CommunicatorObject&) = delete;
  CommunicatorObject& operator=(const CommunicatorObject&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  const std::string& transport() const { return transport_; }
  ferruleStats_t stats() const;
  void abort();
  /// Waits for work under way up to the timeout, then frees the communicator. Again: nothing.
  void close();
  bool is_open() const { return native_ != nullptr; }
  /// For calls that make another communicator of this one. Throws Failure when closed.
  std::shared_ptr<Communicator> native() const { return open(); }

  /// Starts an all-reduce.
  Flight start(const AllReduceCall& call);
  /// Until done. A KeyboardInterrupt aborts the communicator: the ranks could no longer agree on what comes
  /// next.
  Work finish(Flight flight);
  /// Keeps a collective's memory until it is done, for a Work object that nobody kept.
  void adopt(Flight flight);

 private:
  std::shared_ptr<Communicator> open() const;

  /// Shared, so that close() in one thread does not free it under a call in another.
  std::shared_ptr<Communicator> native_;
  int rank_;
  int size_;
  std::string transport_;
  ferruleStats_t last_stats_{};  ///< of a closed communicator
  std::vector<Flight> adopted_;
};

class WorkObject {
 public:
  WorkObject(nanobind::object communicator, Flight flight, nanobind::object result)
      : communicator_(std::move(communicator)), flight_(std::move(flight)), result_(std::move(result)) {}
  ~WorkObject();
  WorkObject(const WorkObject&) = delete;
  WorkObject& operator=(const WorkObject&) = delete;

  bool done() const { return flight_->work.done(); }
  nanobind::object wait(std::optional<double> timeout_s) const;
  std::uint64_t bytes_sent() const { return flight_->work.bytes_sent(); }
  std::string algorithm() const { return flight_->work.algorithm(); }
  int source() const { return flight_->work.source(); }

 private:
  nanobind::object communicator_;
  std::optional<Flight> flight_;
  nanobind::object result_;
};

/// By name; throws Failure for a name that is none.
ReduceOp to_op(const std::string& name);

void bind_communicator(nanobind::module_& module);
void bind_other_collectives(nanobind::class_<CommunicatorObject>& type);
void bind_work(nanobind::module_& module);
void bind_residual(nanobind::module_& module);
void bind_codec(nanobind::module_& module);

}  // namespace ferrule::python
