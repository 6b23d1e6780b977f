#include "bench/ferrule_bench/workspace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "bench/ferrule_bench/elements.hpp"

namespace ferrule::bench {

Result<Buffer> Buffer::allocate(std::size_t bytes) {
  constexpr std::size_t kAlignment = 64;
  const std::size_t rounded = (bytes / kAlignment + 1) * kAlignment;
  Buffer buffer;
  buffer.data_.reset(static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  if (buffer.data_ == nullptr) {
    return Status(ErrorCode::system,
                  fmt::format("cannot allocate a tensor of {} bytes; choose a smaller -e", bytes));
  }
  std::memset(buffer.data(), 0, rounded);
  return buffer;
}

Result<CaseState> CaseState::create(const Case& what, int agg_iters) {
  CaseState state;
  state.what = what;
  for (int i = 0; what.error_feedback && i < agg_iters; ++i) {
    auto residual = Residual::create(what.count);
    if (!residual.ok()) return residual.status();
    state.residuals.push_back(std::move(*residual));
  }
  return state;
}

void CaseState::clear_residuals() {
  for (const Residual& residual : residuals) {
    const auto values = residual.values();
    std::fill(values.begin(), values.end(), 0.0f);
  }
}

Result<Workspace> Workspace::create(const Communicator& comm, const Options& options,
                                    std::uint64_t max_bytes) {
  Workspace workspace(comm, options);
  auto input = Buffer::allocate(max_bytes);
  if (!input.ok()) return input.status();
  workspace.input_ = std::move(*input);
  for (int i = 0; i < options.agg_iters; ++i) {
    auto result = Buffer::allocate(max_bytes);
    if (!result.ok()) return result.status();
    workspace.results_.push_back(std::move(*result));
  }
  return workspace;
}

void Workspace::fill(const DataSpec& spec, std::uint64_t count) {
  constexpr std::size_t kPiece = 4096;
  std::vector<double> values(kPiece);
  for (std::uint64_t first = 0; first < count; first += kPiece) {
    const std::span<double> piece(values.data(), std::min<std::size_t>(kPiece, count - first));
    generate(spec, comm_->rank(), first, piece);
    store_elements(piece, spec.dtype, input_.data() + first * element_bytes(spec.dtype));
  }
}

void Workspace::prepare(const CaseState& state, Place place) {
  if (place == Place::out_of_place) return;
  for (const Buffer& result : results_) std::memcpy(result.data(), input_.data(), state.what.bytes());
}

void Workspace::spoil_result(const CaseState& state) {
  std::memset(results_.front().data(), 0xff, state.what.bytes());  // NaN in every float type
}

AllReduceOptions Workspace::options_of(const CaseState& state, std::size_t lane) const {
  AllReduceOptions options;
  options.codec = state.what.codec;
  options.algorithm = state.what.algorithm;
  options.residual = state.residuals.empty() ? nullptr : &state.residuals[lane];
  options.seed = options_->seed;
  options.step = state.step;
  options.tensor = lane;
  return options;
}

Status Workspace::iterate(CaseState& state, Place place) {
  if (results_.size() == 1) return reduce_once(state, place);
  std::vector<Work> works;
  works.reserve(results_.size());
  for (std::size_t lane = 0; lane < results_.size(); ++lane) {
    Work& work = works.emplace_back();
    FERRULE_RETURN_IF_ERROR(start(state, place, lane, &work));
    if (options_->blocking) FERRULE_RETURN_IF_ERROR(work.wait());
  }
  for (const Work& work : works) FERRULE_RETURN_IF_ERROR(work.wait());
  ++state.step;
  return {};
}

Status Workspace::reduce_once(CaseState& state, Place place) {
  FERRULE_RETURN_IF_ERROR(start(state, place, 0, nullptr));
  ++state.step;
  return {};
}

Status Workspace::start(const CaseState& state, Place place, std::size_t lane, Work* later) {
  const Case& what = state.what;
  std::byte* target = results_[lane].data();
  const bool in_place = place == Place::in_place && !is_apart(what.operation);
  const std::byte* source = in_place ? target : input_.data();
  const CollectiveOptions options = options_of(state, lane);
  const TensorView whole(target, what.count, what.dtype);
  const TensorView send(const_cast<std::byte*>(source), what.count, what.dtype);  // read only
  switch (what.operation) {
    case Operation::all_reduce: {
      if (later == nullptr) return comm_->all_reduce(source, whole, what.op, options);
      auto work = comm_->all_reduce_async(source, whole, what.op, options);
      if (!work.ok()) return work.status();
      *later = std::move(*work);
      return {};
    }
    case Operation::broadcast: {
      // In the C API, because the C++ layer's is in place.
      ferruleOptions_t c = options.to_c();
      ferruleWork_t handle = nullptr;
      if (later != nullptr) c.work = &handle;
      FERRULE_RETURN_IF_ERROR(detail::to_status(
          ferruleBroadcast(source, target, what.count, static_cast<ferruleDataType_t>(what.dtype),
                           options_->root, &c, comm_->handle(), nullptr)));
      if (later != nullptr) *later = Work(handle);
      return {};
    }
    case Operation::reduce:
      return comm_->reduce(send, target, options_->root, what.op, options, later);
    case Operation::sendrecv:
      return exchange(what, source, target, later);
    default:
      return start_parts(what, source, target, options, later);
  }
}

// A rank's own part lies in the whole tensor where it belongs, in the input as in the result.
Status Workspace::start_parts(const Case& what, const void* source, std::byte* target,
                              const CollectiveOptions& options, Work* later) const {
  const std::size_t part = what.count / static_cast<std::size_t>(comm_->size());
  const std::size_t own = part * static_cast<std::size_t>(comm_->rank()) * element_bytes(what.dtype);
  auto* mine = const_cast<std::byte*>(static_cast<const std::byte*>(source)) + own;  // read only
  const TensorView send_part(mine, part, what.dtype);
  const TensorView recv_part(target + own, part, what.dtype);
  switch (what.operation) {
    case Operation::reduce_scatter:
      return comm_->reduce_scatter(source, recv_part, what.op, options, later);
    case Operation::all_gather:
      return comm_->all_gather(send_part, target, options, later);
    case Operation::gather:
      return comm_->gather(send_part, target, options_->root, options, later);
    case Operation::scatter:
      return comm_->scatter(source, recv_part, options_->root, options, later);
    default:
      return comm_->all_to_all(source, TensorView(target, what.count, what.dtype), options, later);
  }
}

// To the next rank, from the one before. Later: the receive, behind which the send cannot be far.
Status Workspace::exchange(const Case& what, const void* source, std::byte* target, Work* later) const {
  const int ranks = comm_->size();
  const TensorView send(const_cast<void*>(source), what.count, what.dtype);  // read only
  const TensorView recv(target, what.count, what.dtype);
  if (ranks == 1) {
    std::memcpy(target, source, what.bytes());
    return comm_->barrier({}, later);
  }
  Work sent;
  FERRULE_RETURN_IF_ERROR(comm_->send(send, (comm_->rank() + 1) % ranks, 0, {}, &sent));
  FERRULE_RETURN_IF_ERROR(comm_->recv(recv, (comm_->rank() + ranks - 1) % ranks, 0, {}, later));
  return later == nullptr ? sent.wait() : Status();
}

Result<Choice> Workspace::find_choice(CaseState& state) {
  Work work;
  FERRULE_RETURN_IF_ERROR(start(state, Place::out_of_place, 0, &work));
  const Choice choice{work.codec(), work.algorithm()};
  FERRULE_RETURN_IF_ERROR(work.wait());
  ++state.step;
  return choice;
}

}  // namespace ferrule::bench
