// The collectives beside all_reduce, sends and receives, as Python gives them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "objects.hpp"

namespace ferrule::python {

enum class Kind {
  reduce_scatter,
  all_gather,
  broadcast,
  reduce,
  gather,
  scatter,
  all_to_all,
  barrier,
  send,
  recv
};

/// `send` and `recv` are None where the collective or the rank has none.
struct CollectiveCall {
  Kind kind = Kind::barrier;
  nanobind::object send = nanobind::none();
  nanobind::object recv = nanobind::none();
  nanobind::object residual = nanobind::none();
  ReduceOp op = ReduceOp::sum;
  int peer = 0;  ///< the root, or the other rank of a transfer
  std::uint32_t tag = 0;
  std::optional<std::vector<std::size_t>> counts = std::nullopt;
  std::optional<std::vector<std::size_t>> recv_counts = std::nullopt;
  CollectiveOptions options = {};
};

/// What moves without being looked at is taken as bytes, so that any element type will do.
Flight start_collective(const CommunicatorObject& communicator, CollectiveCall call);

}  // namespace ferrule::python
