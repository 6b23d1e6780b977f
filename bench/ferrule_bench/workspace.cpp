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
  const Case& what = state.what;
  std::vector<Work> works;
  works.reserve(results_.size());
  for (std::size_t lane = 0; lane < results_.size(); ++lane) {
    std::byte* target = results_[lane].data();
    const void* source = place == Place::in_place ? target : input_.data();
    auto work = comm_->all_reduce_async(source, TensorView(target, what.count, what.dtype), what.op,
                                        options_of(state, lane));
    if (!work.ok()) return work.status();
    if (options_->blocking) FERRULE_RETURN_IF_ERROR(work->wait());
    works.push_back(std::move(*work));
  }
  for (const Work& work : works) FERRULE_RETURN_IF_ERROR(work.wait());
  ++state.step;
  return {};
}

Status Workspace::reduce_once(CaseState& state, Place place) {
  const Case& what = state.what;
  std::byte* target = results_.front().data();
  const void* source = place == Place::in_place ? target : input_.data();
  FERRULE_RETURN_IF_ERROR(
      comm_->all_reduce(source, TensorView(target, what.count, what.dtype), what.op, options_of(state, 0)));
  ++state.step;
  return {};
}

Result<Choice> Workspace::find_choice(CaseState& state) {
  const Case& what = state.what;
  auto work =
      comm_->all_reduce_async(input_.data(), TensorView(results_.front().data(), what.count, what.dtype),
                              what.op, options_of(state, 0));
  if (!work.ok()) return work.status();
  const Choice choice{work->codec(), work->algorithm()};
  FERRULE_RETURN_IF_ERROR(work->wait());
  ++state.step;
  return choice;
}

}  // namespace ferrule::bench
