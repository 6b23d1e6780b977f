#include "bench/compare/workers/tensors.hpp"

#include <fmt/format.h>
#include <string.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <vector>

#include "bench/compare/workers/data.hpp"

namespace ferrule::compare {
namespace {

/// Elements judged at a time: a multiple of every codec's block, and small enough for the cache.
constexpr std::size_t kPiece = 16384;

}  // namespace

Status Pages::allocate(std::size_t count) {
  free();
  void* data = mmap(nullptr, std::max<std::size_t>(count, 1) * sizeof(float), PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED)
    return Status(ErrorCode::system,
                  fmt::format("cannot allocate {} bytes: {}", count * sizeof(float), strerror(errno)));
  data_ = static_cast<float*>(data);
  count_ = count;
  std::fill_n(data_, count_, 0.0f);  // the first touch is the allocator's business, not the all-reduce's
  return {};
}

void Pages::free() {
  if (data_ != nullptr) munmap(data_, std::max<std::size_t>(count_, 1) * sizeof(float));
  data_ = nullptr;
  count_ = 0;
}

std::string Judgement::json() const {
  // JSON has no infinity: a result with one is wrong anyway.
  const auto number = [](double value) { return std::isfinite(value) ? fmt::format("{}", value) : "null"; };
  return fmt::format(
      R"({{"checked":{},"wrong":{},"max_error":{},"error_squares":{},"value_squares":{},"digest":"{:016x}","wire_bytes":{}}})",
      checked, wrong, number(max_error), number(error_squares), number(value_squares), digest, wire_bytes);
}

Status Tensors::prepare(std::size_t bytes, std::size_t repeat, std::uint32_t seed) {
  count_ = bytes / sizeof(float);
  repeat_ = repeat;
  seed_ = seed;
  FERRULE_RETURN_IF_ERROR(source_.allocate(count_ * repeat_));
  FERRULE_RETURN_IF_ERROR(result_.allocate(count_ * repeat_));
  fill(seed_, rank_, 0, source_.values());
  return {};
}

void Tensors::release() {
  source_.free();
  result_.free();
  count_ = repeat_ = 0;
}

void Tensors::restore(bool in_place) {
  if (in_place) std::copy(source_.values().begin(), source_.values().end(), result_.values().begin());
}

Status Tensors::reduce(Contestant& contestant, bool in_place) {
  for (std::size_t tensor = 0; tensor < repeat_; ++tensor) {
    float* recv = result_.values().data() + tensor * count_;
    const float* send = in_place ? recv : source_.values().data() + tensor * count_;
    FERRULE_RETURN_IF_ERROR(contestant.all_reduce(send, recv, count_));
  }
  return {};
}

Status Tensors::judge_piece(const Contestant& contestant, std::size_t first, std::size_t count,
                            Judgement& judgement) const {
  std::vector<double> sums(count), magnitudes(count), bounds(count);
  expect(seed_, ranks_, contestant.block(), first, {sums, magnitudes});
  FERRULE_RETURN_IF_ERROR(contestant.bounds(magnitudes, bounds));
  for (std::size_t i = 0; i < count; ++i) {
    const double error = std::fabs(result_.values()[first + i] - sums[i]);
    if (!(error <= bounds[i])) ++judgement.wrong;
    judgement.max_error = error <= judgement.max_error ? judgement.max_error : error;
    judgement.error_squares += error * error;
    judgement.value_squares += sums[i] * sums[i];
  }
  judgement.checked += count;
  return {};
}

Status Tensors::judge_share(const Contestant& contestant, std::size_t tensor, Judgement& judgement) const {
  const std::size_t pieces = (count_ + kPiece - 1) / kPiece;
  for (std::size_t piece = static_cast<std::size_t>(rank_); piece < pieces; piece += ranks_) {
    const std::size_t first = piece * kPiece;
    const std::size_t count = std::min(kPiece, count_ - first);
    FERRULE_RETURN_IF_ERROR(judge_piece(contestant, tensor * count_ + first, count, judgement));
  }
  return {};
}

Result<Judgement> Tensors::judge(const Contestant& contestant) const {
  Judgement judgement;
  for (std::size_t tensor = 0; tensor < repeat_; ++tensor)
    FERRULE_RETURN_IF_ERROR(judge_share(contestant, tensor, judgement));
  judgement.digest = digest(result_.values());
  return judgement;
}

}  // namespace ferrule::compare
