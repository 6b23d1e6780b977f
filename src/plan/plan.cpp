#include "plan/plan.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>

#include "plan/selection.hpp"

namespace ferrule::plan {
namespace {

// What slices beyond the transport's own wish may hold in scratch.
constexpr std::size_t kScratchBytes = 64 << 20;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

}  // namespace

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

Result<std::shared_ptr<const Plan>> Plan::make(const Request& request, const Environment& environment,
                                               std::shared_ptr<const codec::Codec> raw) {
  std::shared_ptr<Plan> plan(new Plan);
  plan->environment_ = environment;
  plan->count_ = request.count;
  plan->dtype_ = request.dtype;
  plan->op_ = request.op;
  // Never an expansion: a tensor that would not shrink goes as it is.
  const std::size_t raw_bytes = request.count * element_bytes(request.dtype);
  const bool shrinks = request.codec->encoded_bytes(request.count, request.dtype) < raw_bytes;
  plan->codec_ = shrinks ? request.codec : std::move(raw);
  plan->algorithm_ = request.algorithm;
  if (plan->algorithm_ == nullptr) FERRULE_RETURN_IF_ERROR(plan->choose());
  const collectives::Schedule schedule = plan->algorithm_->build(environment.rank, environment.world);
  auto program = lower(schedule, plan->codec_->identity());
  FERRULE_RETURN_IF_ERROR(program.status());
  plan->program_ = std::move(program).value();
  plan->chunks_ = schedule.chunks;
  plan->cut();
  plan->fill_link();
  plan->describe();
  return std::shared_ptr<const Plan>(std::move(plan));
}

Status Plan::choose() {
  Situation situation;
  situation.world = environment_.world;
  situation.count = count_;
  situation.encoded_bytes = encoded_bytes(count_);
  situation.slice_bytes = environment_.slice_bytes;
  situation.dtype = dtype_;
  situation.exact = codec_->exact();
  auto chosen = choose_algorithm(situation, environment_.link);
  FERRULE_RETURN_IF_ERROR(chosen.status());
  algorithm_ = chosen->algorithm;
  return {};
}

// Chunks are equal shares in whole blocks; slices cut every chunk alike, so that slice s is the same share of
// all.
void Plan::cut() {
  const std::size_t block = codec_->block();
  const std::size_t blocks = divide_up(count_, block);
  const std::size_t chunk_blocks = divide_up(blocks, chunks_);
  chunk_elements_ = chunk_blocks * block;
  const std::size_t block_bytes = std::max<std::size_t>(1, encoded_bytes(block));
  const std::size_t most_blocks = std::max<std::size_t>(1, environment_.slice_bytes / block_bytes);
  slice_count_ = static_cast<std::uint32_t>(divide_up(chunk_blocks, most_blocks));
  const std::size_t slice_blocks = slice_count_ == 0 ? 0 : divide_up(chunk_blocks, slice_count_);
  slice_elements_ = slice_blocks * block;
  slot_bytes_ = encoded_bytes(std::min(slice_elements_, count_));
}

// As many slices under way as the link holds, but no more than their scratch is worth.
void Plan::fill_link() {
  const std::uint32_t least = std::max(1U, environment_.slices_in_flight);
  slices_in_flight_ = least;
  if (!environment_.fill_link || environment_.world == 1) return;
  const std::uint32_t filling =
      slices_to_fill(shape_of(*algorithm_, environment_.world), rounds_of(*algorithm_, environment_.world),
                     slot_bytes_, environment_.link, least);
  const std::size_t slice_scratch = std::max<std::size_t>(1, program_.scratch_slots * slot_bytes_);
  const auto affordable =
      static_cast<std::uint32_t>(std::min<std::size_t>(filling, kScratchBytes / slice_scratch));
  slices_in_flight_ = std::max(least, affordable);
}

Range Plan::slice_of_chunk(std::uint32_t chunk, std::uint32_t slice) const {
  const std::size_t chunk_begin = std::min(count_, chunk * chunk_elements_);
  const std::size_t chunk_end = std::min(count_, chunk_begin + chunk_elements_);
  const std::size_t begin = std::min(chunk_end, chunk_begin + slice * slice_elements_);
  return {begin, std::min(chunk_end, begin + slice_elements_) - begin};
}

void Plan::describe() {
  descriptor_ = fmt::format(
      "count={}\ndtype={}\nop={}\ncodec={}\nalgorithm={}\nslice elements={}\nslices in "
      "flight={}\nschedule={:016x}\n"
      "version={}\n",
      count_, dtype_name(dtype_), op_name(op_), codec_->spec(), algorithm_->name, environment_.slice_bytes,
      slices_in_flight_, collectives::fingerprint(*algorithm_, environment_.world), FERRULE_VERSION_TEXT);
  fingerprint_ = hash_bytes(descriptor_.data(), descriptor_.size());
}

}  // namespace ferrule::plan
