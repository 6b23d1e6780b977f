// The collectives of ferrule::Communicator beside all_reduce, and its sends and receives. Shapes, in-place
// rules and which of them take codecs: ferrule/collectives.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "ferrule/ferrule.h"
#include "ferrule/status.hpp"
#include "ferrule/tensor_view.hpp"
#include "ferrule/types.hpp"

namespace ferrule {

/// What Communicator inherits. Each function returns when done; with `later` it returns at once, the Work is
/// there, and buffers must stay in place until it is done. `Options` and `Work` are Communicator's.
template <class Communicator, class Options, class Work>
class CollectiveCalls {
 public:
  /// `recv` is this rank's part; `send` has the parts of all, of recv.count elements each.
  Status reduce_scatter(const void* send, const TensorView& recv, ReduceOp op = ReduceOp::sum,
                        const Options& options = {}, Work* later = nullptr) const {
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleReduceScatter(send, recv.data, recv.count, type(recv), static_cast<ferruleRedOp_t>(op), c,
                                  comm(), nullptr);
    });
  }
  Status reduce_scatter_v(const void* send, const TensorView& recv, std::span<const std::size_t> counts,
                          ReduceOp op = ReduceOp::sum, const Options& options = {},
                          Work* later = nullptr) const {
    FERRULE_RETURN_IF_ERROR(check_counts(counts, recv.count));
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleReduceScatterV(send, recv.data, counts.data(), type(recv),
                                   static_cast<ferruleRedOp_t>(op), c, comm(), nullptr);
    });
  }

  /// `send` is this rank's part; `recv` has room for the parts of all.
  Status all_gather(const TensorView& send, void* recv, const Options& options = {},
                    Work* later = nullptr) const {
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleAllGather(send.data, recv, send.count, type(send), c, comm(), nullptr);
    });
  }
  Status all_gather_v(const TensorView& send, void* recv, std::span<const std::size_t> counts,
                      const Options& options = {}, Work* later = nullptr) const {
    FERRULE_RETURN_IF_ERROR(check_counts(counts, send.count));
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleAllGatherV(send.data, recv, counts.data(), type(send), c, comm(), nullptr);
    });
  }

  /// In place: the root's tensor, on all ranks.
  Status broadcast(const TensorView& tensor, int root, const Options& options = {},
                   Work* later = nullptr) const {
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleBroadcast(tensor.data, tensor.data, tensor.count, type(tensor), root, c, comm(), nullptr);
    });
  }

  /// `recv` may be null but on the root; it may be send.data.
  Status reduce(const TensorView& send, void* recv, int root, ReduceOp op = ReduceOp::sum,
                const Options& options = {}, Work* later = nullptr) const {
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleReduce(send.data, recv, send.count, type(send), static_cast<ferruleRedOp_t>(op), root, c,
                           comm(), nullptr);
    });
  }

  /// `send` is this rank's part; `recv`, on the root, has room for the parts of all.
  Status gather(const TensorView& send, void* recv, int root, const Options& options = {},
                Work* later = nullptr) const {
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleGather(send.data, recv, send.count, type(send), root, c, comm(), nullptr);
    });
  }
  Status gather_v(const TensorView& send, void* recv, std::span<const std::size_t> counts, int root,
                  const Options& options = {}, Work* later = nullptr) const {
    FERRULE_RETURN_IF_ERROR(check_counts(counts, send.count));
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleGatherV(send.data, recv, counts.data(), type(send), root, c, comm(), nullptr);
    });
  }

  /// `recv` is this rank's part; `send`, on the root, has the parts of all.
  Status scatter(const void* send, const TensorView& recv, int root, const Options& options = {},
                 Work* later = nullptr) const {
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleScatter(send, recv.data, recv.count, type(recv), root, c, comm(), nullptr);
    });
  }
  Status scatter_v(const void* send, const TensorView& recv, std::span<const std::size_t> counts, int root,
                   const Options& options = {}, Work* later = nullptr) const {
    FERRULE_RETURN_IF_ERROR(check_counts(counts, recv.count));
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleScatterV(send, recv.data, counts.data(), type(recv), root, c, comm(), nullptr);
    });
  }

  /// `recv` has the parts that come from all ranks, `send` as many that go to them: recv.count / size() each.
  Status all_to_all(const void* send, const TensorView& recv, const Options& options = {},
                    Work* later = nullptr) const {
    const std::size_t ranks = static_cast<std::size_t>(self().size());
    if (ranks == 0 || recv.count % ranks != 0) {
      return Status(ErrorCode::invalid_argument, "all_to_all: recv has no equal part for each rank");
    }
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleAllToAll(send, recv.data, recv.count / ranks, type(recv), c, comm(), nullptr);
    });
  }
  Status all_to_all_v(const void* send, std::span<const std::size_t> send_counts, const TensorView& recv,
                      std::span<const std::size_t> recv_counts, const Options& options = {},
                      Work* later = nullptr) const {
    FERRULE_RETURN_IF_ERROR(check_counts(send_counts, SIZE_MAX));
    FERRULE_RETURN_IF_ERROR(check_counts(recv_counts, SIZE_MAX));
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleAllToAllV(send, send_counts.data(), recv.data, recv_counts.data(), type(recv), c, comm(),
                              nullptr);
    });
  }

  /// Returns when all ranks have begun it.
  Status barrier(const Options& options = {}, Work* later = nullptr) const {
    return run(options, later, [&](const ferruleOptions_t* c) { return ferruleBarrier(c, comm(), nullptr); });
  }

  Status send(const TensorView& tensor, int peer, std::uint32_t tag = 0, const Options& options = {},
              Work* later = nullptr) const {
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleSend(tensor.data, tensor.count, type(tensor), peer, tag, c, comm(), nullptr);
    });
  }
  /// `peer` may be FERRULE_ANY_RANK.
  Status recv(const TensorView& tensor, int peer, std::uint32_t tag = 0, const Options& options = {},
              Work* later = nullptr) const {
    return run(options, later, [&](const ferruleOptions_t* c) {
      return ferruleRecv(tensor.data, tensor.count, type(tensor), peer, tag, c, comm(), nullptr);
    });
  }

 private:
  const Communicator& self() const { return static_cast<const Communicator&>(*this); }
  ferruleComm_t comm() const { return self().handle(); }
  static ferruleDataType_t type(const TensorView& tensor) {
    return static_cast<ferruleDataType_t>(tensor.dtype);
  }

  // One for each rank, and this rank's is what its tensor has (SIZE_MAX: not asked).
  Status check_counts(std::span<const std::size_t> counts, std::size_t own) const {
    const std::size_t ranks = static_cast<std::size_t>(self().size());
    if (counts.size() != ranks) {
      return Status(ErrorCode::invalid_argument, "counts: there are " + std::to_string(counts.size()) +
                                                     " for " + std::to_string(ranks) + " ranks");
    }
    const std::size_t said = counts[static_cast<std::size_t>(self().rank())];
    if (own == SIZE_MAX || said == own) return {};
    return Status(ErrorCode::invalid_argument, "counts: this rank's is " + std::to_string(said) +
                                                   ", and its tensor has " + std::to_string(own) +
                                                   " elements");
  }

  template <class Call>
  Status run(const Options& options, Work* later, const Call& call) const {
    ferruleOptions_t c = options.to_c();
    ferruleWork_t work = nullptr;
    if (later != nullptr) c.work = &work;
    const ferruleResult_t result = call(&c);
    if (result != ferruleSuccess) return Status(static_cast<ErrorCode>(result), ferruleGetLastError());
    if (later != nullptr) *later = Work(work);
    return {};
  }
};

}  // namespace ferrule
