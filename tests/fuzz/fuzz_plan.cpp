// Plans of any size: slices must cover the tensor exactly once, start at block edges and fit into their
// slots.
#include "codec/codec.hpp"
#include "fuzz/codec_input.hpp"
#include "plan/plan.hpp"

namespace {

using namespace ferrule;
using namespace ferrule::fuzz;

std::shared_ptr<const codec::Codec> shared(const codec::Codec& codec) {
  return {&codec, [](const codec::Codec*) {}};  // lives for ever
}

std::size_t any_tensor(Input& input) {
  const auto raw = input.take<std::uint64_t>();
  return raw >> (20 + raw % 44);  // all magnitudes alike, up to 2^44 elements
}

void check_slice(const plan::Plan& plan, std::uint32_t chunk, std::uint32_t slice,
                 std::size_t expected_begin) {
  const plan::Range range = plan.slice_of_chunk(chunk, slice);
  FERRULE_REQUIRE(range.begin == expected_begin);
  FERRULE_REQUIRE(range.begin + range.count <= plan.count());
  for (const plan::Slot& slot : plan.program().slots) {
    if (slot.level == plan::kPlainLevel) continue;
    FERRULE_REQUIRE(range.begin % plan.codec(slot.level).block() == 0 || range.begin == plan.count());
    FERRULE_REQUIRE(plan.encoded_bytes(range.count, slot.level) <= plan.slot_bytes());
    const bool scratch = slot.home == plan::SlotHome::scratch;
    FERRULE_REQUIRE(!scratch || plan.encoded_bytes(range.count, slot.level) <= plan.scratch_slot_bytes());
  }
}

std::size_t end_of(const plan::Range& range) { return range.begin + range.count; }

// The first and the last slices of every chunk, and some between, each beginning where its predecessor ends.
void check_cover(const plan::Plan& plan, std::uint32_t chunks, Input& input) {
  if (plan.slice_count() == 0) return FERRULE_REQUIRE(plan.count() == 0);
  const std::uint32_t last = plan.slice_count() - 1;
  std::size_t chunk_begin = 0;
  for (std::uint32_t chunk = 0; chunk < chunks; ++chunk) {
    check_slice(plan, chunk, 0, chunk_begin);
    for (int i = 0; i < 4 && last > 0; ++i) {
      const std::uint32_t slice = 1 + (i == 0 ? last - 1 : input.take<std::uint32_t>() % last);
      check_slice(plan, chunk, slice, end_of(plan.slice_of_chunk(chunk, slice - 1)));
    }
    chunk_begin = end_of(plan.slice_of_chunk(chunk, last));
  }
  FERRULE_REQUIRE_OR(chunk_begin == plan.count(), plan.descriptor());
}

// Nodes of one to four ranks, or none: a flat world.
std::shared_ptr<const collectives::Topology> any_topology(Input& input) {
  if (input.flag()) return std::make_shared<const collectives::Topology>(1 + input.pick(9));
  std::vector<std::int32_t> sizes(1 + input.pick(4));
  for (std::int32_t& size : sizes) size = 1 + static_cast<std::int32_t>(input.pick(4));
  return std::make_shared<const collectives::Topology>(collectives::Topology::of_sizes(sizes));
}

plan::Request any_request(Input& input) {
  plan::Request request;
  const codec::Codec& codec = input.pick(4) == 0 ? codec_of("none/int4:block=96") : any_codec(input);
  request.codec = shared(codec);
  request.op = any_op(input, codec);
  request.dtype = any_dtype(input, codec, request.op);
  request.count = any_tensor(input);
  const auto all = collectives::algorithms();
  const std::uint32_t algorithm = input.pick(static_cast<std::uint32_t>(all.size()) + 1);
  if (algorithm < all.size()) request.algorithm = &all[algorithm];
  return request;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  const plan::Request request = any_request(input);
  plan::Environment environment;
  environment.topology = any_topology(input);
  environment.world = environment.topology->world();
  environment.rank = static_cast<std::int32_t>(input.pick(static_cast<std::uint32_t>(environment.world)));
  environment.slice_bytes = input.flag() ? 64512 : input.take<std::uint32_t>() >> input.pick(32);
  const auto made = plan::Plan::make(request, environment, shared(codec_of("none")));
  if (!made.ok()) {
    // A list of codecs for an algorithm or a topology without levels.
    FERRULE_REQUIRE_OR(!request.codec->levels().empty(), made.status().text());
    FERRULE_REQUIRE_OR(made.status().code() == ErrorCode::invalid_argument, made.status().text());
    return 0;
  }
  const auto schedule = (*made)->algorithm().build(environment.rank, *environment.topology);
  check_cover(**made, schedule.chunks, input);
  return 0;
}
