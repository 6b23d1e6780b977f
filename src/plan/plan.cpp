#include "plan/plan.hpp"

#include <fmt/format.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <numeric>

#include "plan/selection.hpp"

namespace ferrule::plan {
namespace {

// What slices beyond the transport's own wish may hold in scratch.
constexpr std::size_t kScratchBytes = 64 << 20;
constexpr std::size_t kMaxSlices = std::size_t{1} << 31;

std::size_t divide_up(std::size_t a, std::size_t b) { return (a + b - 1) / b; }

Result<const collectives::AlgorithmDesc*> choose(const Request& request, const Environment& environment) {
  if (!request.codec->levels().empty()) {
    return collectives::find_algorithm("hierarchical", request.collective);
  }
  const std::size_t count = request.total(environment.world);
  const std::size_t raw_bytes = count * element_bytes(request.dtype);
  const std::size_t encoded_bytes = request.codec->encoded_bytes(count, request.dtype);
  Situation situation;
  situation.collective = request.collective;
  situation.world = environment.world;
  situation.count = count;
  situation.encoded_bytes = std::min(raw_bytes, encoded_bytes);
  situation.slice_bytes = environment.slice_bytes;
  situation.dtype = request.dtype;
  situation.exact = request.codec->exact() || encoded_bytes >= raw_bytes;
  auto chosen = choose_algorithm(situation, environment.link);
  FERRULE_RETURN_IF_ERROR(chosen.status());
  return chosen->algorithm;
}

// Of more ranks than one would read, a digest.
std::string counts_text(const Request& request, std::int32_t world) {
  constexpr std::size_t kShown = 64;
  if (request.collective == collectives::Collective::all_to_all && !request.counts.empty()) {
    return "counts=each rank's own\n";
  }
  if (request.counts.empty()) return fmt::format("count={}\n", request.count);
  if (request.counts.size() <= kShown) return fmt::format("counts={}\n", fmt::join(request.counts, ","));
  return fmt::format("counts={} in all, digest {:016x}\n", request.total(world),
                     hash_bytes(request.counts.data(), request.counts.size() * sizeof(std::size_t)));
}

}  // namespace

std::size_t Request::total(std::int32_t world) const {
  if (!collectives::is_by_rank(collective)) return count;
  if (counts.empty()) return count * static_cast<std::size_t>(world);
  return std::accumulate(counts.begin(), counts.end(), std::size_t{0});
}

std::uint64_t hash_bytes(const void* data, std::size_t bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(data, bytes, seed);
}

Result<std::shared_ptr<const Plan>> Plan::make(const Request& request, const Environment& environment,
                                               std::shared_ptr<const codec::Codec> raw) {
  std::shared_ptr<Plan> plan(new Plan);
  plan->environment_ = environment;
  if (environment.topology == nullptr) {
    plan->environment_.topology = std::make_shared<const collectives::Topology>(environment.world);
  }
  plan->contract_ = {request.collective, environment.world, request.root};
  plan->parts_ = request.parts();
  plan->extent_ = extent_of(plan->contract_, environment.rank, plan->parts_);
  plan->count_ = request.total(environment.world);
  plan->dtype_ = request.dtype;
  plan->op_ = request.op;
  plan->algorithm_ = request.algorithm;
  if (plan->algorithm_ == nullptr) {
    auto chosen = choose(request, environment);
    FERRULE_RETURN_IF_ERROR(chosen.status());
    plan->algorithm_ = *chosen;
  }
  FERRULE_RETURN_IF_ERROR(plan->assign_codecs(request, raw));
  const collectives::Schedule schedule =
      collectives::build(*plan->algorithm_, environment.rank, *plan->environment_.topology, request.root);
  auto program = plan->lower_schedule(schedule);
  FERRULE_RETURN_IF_ERROR(program.status());
  plan->program_ = std::move(program).value();
  plan->chunks_ = schedule.chunks;
  plan->cut();
  plan->fill_link();
  plan->describe(request);
  return std::shared_ptr<const Plan>(std::move(plan));
}

std::vector<std::shared_ptr<const codec::Codec>> codecs_by_level(
    std::shared_ptr<const codec::Codec> codec, const std::shared_ptr<const codec::Codec>& raw,
    std::size_t levels) {
  std::vector<std::shared_ptr<const codec::Codec>> codecs(levels, codec);
  const auto listed = codec->levels();
  for (std::size_t level = 0; level < levels && !listed.empty(); ++level) {
    codecs[level] = listed[std::min(level, listed.size() - 1)];
  }
  if (listed.empty() && levels > 1) codecs[0] = raw;
  return codecs;
}

Status Plan::assign_codecs(const Request& request, const std::shared_ptr<const codec::Codec>& raw) {
  const std::size_t levels = algorithm_->uses_topology() ? environment_.topology->levels() : 1;
  const auto listed = request.codec->levels();
  if (!algorithm_->uses_topology() && !listed.empty()) {
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("codec '{}' is one for each level of a topology, and algorithm '{}' has no levels: "
                    "use 'hierarchical', or a single codec",
                    request.codec->spec(), algorithm_->name));
  }
  if (listed.size() > levels) {
    return Status(
        ErrorCode::invalid_argument,
        fmt::format("codec '{}' is for {} levels, and the topology ({}) has {}: see FERRULE_TOPOLOGY",
                    request.codec->spec(), listed.size(), environment_.topology->text(), levels));
  }
  codecs_ = codecs_by_level(request.codec, raw, levels);
  for (auto& codec : codecs_) {
    // Never an expansion: a tensor that would not shrink goes as it is.
    if (!shrinks(*codec)) codec = raw;
  }
  return {};
}

bool Plan::shrinks(const codec::Codec& codec) const {
  std::size_t encoded = 0;
  if (parts_.counts.empty() && !collectives::is_by_rank(contract_.collective)) {
    encoded = codec.encoded_bytes(count_, dtype_);
  } else {
    for (std::int32_t rank = 0; rank < contract_.world; ++rank) {
      encoded += codec.encoded_bytes(parts_.count(rank), dtype_);
    }
  }
  return encoded < count_ * element_bytes(dtype_);
}

bool Plan::is_used(std::uint32_t level) const {
  return !algorithm_->uses_topology() || environment_.topology->is_used(level);
}

bool Plan::exact() const {
  for (std::uint32_t level = 0; level < codecs_.size(); ++level) {
    if (is_used(level) && !codecs_[level]->exact()) return false;
  }
  return true;
}

std::size_t Plan::largest_encoded_bytes(std::size_t elements) const {
  std::size_t largest = 0;
  for (std::uint32_t level = 0; level < codecs_.size(); ++level) {
    if (is_used(level)) largest = std::max(largest, encoded_bytes(elements, level));
  }
  return largest;
}

Result<Program> Plan::lower_schedule(const collectives::Schedule& schedule) const {
  std::vector<LevelCodec> levels;
  for (const auto& codec : codecs_) {
    const auto first = std::find(codecs_.begin(), codecs_.end(), codec);
    levels.push_back({static_cast<std::uint32_t>(first - codecs_.begin()), codec->identity()});
  }
  return lower(schedule, levels, contract_);
}

// Shares are of whole blocks, and slices cut them alike, so that slice s is the same share of all. Parts are
// of any size, and slices as large as they may be: ranks need not know of the largest part to cut alike.
void Plan::cut() {
  std::size_t block = 1;
  for (std::uint32_t level = 0; level < codecs_.size(); ++level) {
    if (level == 0 || is_used(level)) block = std::lcm(block, codecs_[level]->block());
  }
  const bool parts = collectives::is_by_rank(contract_.collective);
  layout_ = parts ? Layout::of_parts(contract_, environment_.rank, parts_, block)
                  : Layout::of_shares(count_, chunks_, block);
  const std::size_t chunk_blocks = layout_.largest_chunk() / block;
  const std::size_t block_bytes = std::max<std::size_t>(1, largest_encoded_bytes(block));
  // A header counts slices in 32 bits.
  const std::size_t least_blocks = std::max<std::size_t>(1, divide_up(chunk_blocks, kMaxSlices));
  const std::size_t most_blocks = std::max(least_blocks, environment_.slice_bytes / block_bytes);
  slice_count_ = static_cast<std::uint32_t>(divide_up(chunk_blocks, most_blocks));
  const std::size_t slice_blocks = slice_count_ == 0 ? 0 : divide_up(chunk_blocks, slice_count_);
  layout_.set_slice((parts ? most_blocks : slice_blocks) * block);
  const bool known_to_all = contract_.collective != collectives::Collective::all_to_all;
  const std::size_t most_elements =
      std::min(layout_.slice_elements(),
               parts && known_to_all ? layout_.largest_chunk() : (parts ? SIZE_MAX : count_));
  slot_bytes_ = largest_encoded_bytes(most_elements);
  for (const Slot& slot : program_.slots) {
    if (slot.home != SlotHome::scratch) continue;
    scratch_slot_bytes_ = std::max(scratch_slot_bytes_, encoded_bytes(most_elements, slot.level));
  }
}

// As many slices under way as the link holds, but no more than their scratch is worth.
void Plan::fill_link() {
  const std::uint32_t least = std::max(1U, environment_.slices_in_flight);
  slices_in_flight_ = least;
  if (!environment_.fill_link || environment_.world == 1) return;
  const Shape shape = shape_of(*algorithm_, *environment_.topology);
  const std::uint32_t filling = slices_to_fill(shape, rounds_of(*algorithm_, environment_.world), slot_bytes_,
                                               environment_.link, least);
  // Of any rank, not of this one: ranks of a tree have different numbers of slots, and must choose alike.
  const std::size_t slice_scratch = std::max<std::size_t>(1, (shape.messages + 1) * slot_bytes_);
  const auto affordable =
      static_cast<std::uint32_t>(std::min<std::size_t>(filling, kScratchBytes / slice_scratch));
  slices_in_flight_ = std::max(least, affordable);
}

void Plan::describe(const Request& request) {
  for (const auto& codec : codecs_) codec_text_ += (codec_text_.empty() ? "" : "/") + codec->spec();
  descriptor_ = fmt::format(
      "collective={}\n{}dtype={}\nop={}\ncodec={}\nalgorithm={}\nslice elements={}\nslices in "
      "flight={}\nschedule={:016x}\n"
      "version={}\n",
      name(), counts_text(request, contract_.world), dtype_name(dtype_), op_name(op_), codec_text_,
      algorithm_->name, environment_.slice_bytes, slices_in_flight_,
      collectives::fingerprint(*algorithm_, *environment_.topology, request.root), FERRULE_VERSION_TEXT);
  if (collectives::has_root(contract_.collective)) descriptor_ += fmt::format("root={}\n", contract_.root);
  if (algorithm_->uses_topology()) descriptor_ += fmt::format("topology={}\n", environment_.topology->text());
  fingerprint_ = hash_bytes(descriptor_.data(), descriptor_.size());
}

}  // namespace ferrule::plan
