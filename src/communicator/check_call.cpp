#include "communicator/check_call.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "communicator/communicator.hpp"

namespace ferrule::communicator {
namespace {

using collectives::Collective;

Status invalid(std::string text) { return Status(ErrorCode::invalid_argument, std::move(text)); }

// Bytes of one side of the call.
struct Side {
  std::string_view name;
  const void* data = nullptr;
  std::size_t bytes = 0;

  std::uintptr_t begin() const { return reinterpret_cast<std::uintptr_t>(data); }
};

Status check_kind(const Call& call, std::int32_t world) {
  if (!is_valid(call.dtype)) return invalid(fmt::format("{} is no dtype", static_cast<int>(call.dtype)));
  if (!is_valid(call.op)) return invalid(fmt::format("{} is no operation", static_cast<int>(call.op)));
  if (collectives::has_root(call.collective) && (call.root < 0 || call.root >= world)) {
    return invalid(
        fmt::format("root {} of {} is no rank of a world of {}", call.root, name(call.collective), world));
  }
  return {};
}

Status check_weight(const Call& call) {
  if (!call.weight) return {};
  const bool is_float = call.dtype == DType::f32 || call.dtype == DType::f64 || call.dtype == DType::f16 ||
                        call.dtype == DType::bf16;
  if (call.collective != Collective::all_reduce) {
    return invalid(
        fmt::format("a weight was given to {}: weights are for all_reduce", name(call.collective)));
  }
  if (call.op == ReduceOp::avg && is_float) return {};
  return invalid(
      fmt::format("a weight was given with operation {} of {}: weights are for means (avg) of floats",
                  op_name(call.op), dtype_name(call.dtype)));
}

// Counts are sums of at most world numbers, each of which fits into memory by itself.
Status check_counts(std::string_view what, std::span<const std::size_t> counts, const Call& call,
                    std::int32_t world) {
  const std::size_t most = PTRDIFF_MAX / element_bytes(call.dtype);
  if (!counts.empty() && counts.size() != static_cast<std::size_t>(world)) {
    return invalid(fmt::format("{} has {} entries; {} of {} ranks needs one for each", what, counts.size(),
                               name(call.collective), world));
  }
  std::size_t total = 0;
  for (const std::size_t count : counts) {
    if (count > most - total) {
      return invalid(
          fmt::format("{} of {} add up to more than memory can hold", what, dtype_name(call.dtype)));
    }
    total += count;
  }
  return {};
}

Status check_all_counts(const Call& call, std::int32_t world) {
  const std::size_t most = PTRDIFF_MAX / element_bytes(call.dtype);
  const std::size_t times = collectives::is_by_rank(call.collective) ? static_cast<std::size_t>(world) : 1;
  if (call.counts.empty() && call.count > most / times) {
    return invalid(
        fmt::format("count {} of {} is more than memory can hold", call.count, dtype_name(call.dtype)));
  }
  FERRULE_RETURN_IF_ERROR(check_counts("counts", call.counts, call, world));
  FERRULE_RETURN_IF_ERROR(check_counts("recv_counts", call.recv_counts, call, world));
  if (call.counts.empty() == call.recv_counts.empty() || call.collective != Collective::all_to_all) return {};
  return invalid("all_to_all takes both counts and recv_counts, or neither");
}

Status check_side(const Side& side, const Call& call) {
  if (side.bytes == 0) return {};
  const std::size_t bytes_each = element_bytes(call.dtype);
  if (side.data == nullptr) {
    return invalid(fmt::format("{} is null but count is {}", side.name, side.bytes / bytes_each));
  }
  if (side.begin() % bytes_each == 0) return {};
  return invalid(fmt::format("{} is not aligned to its elements ({}, {} bytes)", side.name,
                             dtype_name(call.dtype), bytes_each));
}

// In place is where a rank's own part lies in the larger buffer.
bool is_in_place(const Call& call, const Side& send, const Side& recv, std::size_t own_bytes) {
  switch (call.collective) {
    case Collective::all_to_all:
      return false;
    case Collective::reduce_scatter:
    case Collective::scatter:
      return recv.begin() == send.begin() + own_bytes;
    case Collective::all_gather:
    case Collective::gather:
      return send.begin() == recv.begin() + own_bytes;
    default:
      return send.begin() == recv.begin();
  }
}

Status check_overlap(const Call& call, const Side& send, const Side& recv, std::size_t own_bytes) {
  const bool apart = send.bytes == 0 || recv.bytes == 0 || send.begin() >= recv.begin() + recv.bytes ||
                     recv.begin() >= send.begin() + send.bytes;
  if (apart || is_in_place(call, send, recv, own_bytes)) return {};
  if (call.collective == Collective::all_to_all) {
    return invalid("send and recv overlap: all_to_all is never in place, pass separate buffers");
  }
  if (collectives::is_by_rank(call.collective)) {
    return invalid(
        fmt::format("send and recv overlap in part: pass separate buffers, or for {} in place the "
                    "smaller one where the rank's own part begins in the larger one",
                    name(call.collective)));
  }
  return invalid("send and recv overlap in part: pass equal pointers for in place, or separate buffers");
}

}  // namespace

plan::Parts parts_of(const Call& call) {
  return {call.count,
          {call.counts.begin(), call.counts.end()},
          {call.recv_counts.begin(), call.recv_counts.end()}};
}

Status check_call(const Call& call, std::int32_t rank, std::int32_t world) {
  FERRULE_RETURN_IF_ERROR(check_kind(call, world));
  FERRULE_RETURN_IF_ERROR(check_all_counts(call, world));
  FERRULE_RETURN_IF_ERROR(check_weight(call));
  const plan::Extent extent = plan::extent_of({call.collective, world, call.root}, rank, parts_of(call));
  const std::size_t bytes_each = element_bytes(call.dtype);
  const Side send{"send", call.send, extent.input * bytes_each};
  const Side recv{"recv", call.recv, extent.output * bytes_each};
  FERRULE_RETURN_IF_ERROR(check_side(send, call));
  FERRULE_RETURN_IF_ERROR(check_side(recv, call));
  if (call.residual != nullptr && call.residual->count() != extent.input) {
    return invalid(
        fmt::format("the residual has {} elements, the tensor {}", call.residual->count(), extent.input));
  }
  return check_overlap(call, send, recv, extent.own_begin * bytes_each);
}

}  // namespace ferrule::communicator
