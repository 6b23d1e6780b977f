// A peer's encoded bytes may be anything: every codec must decode and hop them within its buffers, say truly
// whether all of it was finite, keep its residual free of NaN and Inf, and do so bit for bit alike on every
// instruction set.
#include <algorithm>
#include <cmath>
#include <optional>

#include "codec/simd/target.hpp"
#include "fuzz/codec_input.hpp"

namespace {

using namespace ferrule;
using namespace ferrule::fuzz;
using codec::Term;

struct Scene {
  const codec::Codec* codec = nullptr;
  ReduceOp op = ReduceOp::sum;
  DType dtype = DType::f32;
  std::size_t count = 0;
  std::size_t offset = 0;          // of encoded bytes, from an aligned address
  std::size_t element_offset = 0;  // of plain elements, in elements
  bool finish = false;
  bool in_place = false;  // the output is the first plain term
  std::uint32_t world = 1;
  codec::Noise noise;
  std::vector<Term::Kind> kinds;
  std::vector<std::vector<std::byte>> bytes;
  std::optional<std::vector<float>> before;
  bool charge = false;
};

Scene any_scene(Input& input) {
  Scene scene;
  scene.codec = &any_codec(input);
  scene.op = any_op(input, *scene.codec);
  scene.dtype = any_dtype(input, *scene.codec, scene.op);
  scene.count = any_count(input, scene.codec->block());
  scene.offset = input.pick(16);
  scene.element_offset = input.pick(4);
  const std::uint8_t flags = input.take<std::uint8_t>();
  scene.finish = (flags & 1U) != 0;
  scene.in_place = (flags & 2U) != 0;
  scene.charge = (flags & 4U) != 0;
  scene.world = input.take<std::uint8_t>();
  scene.noise = {input.take<std::uint64_t>(), input.take<std::uint16_t>() * scene.codec->block()};
  if ((flags & 8U) != 0) scene.before = as_floats(any_elements(input, scene.count, DType::f32), DType::f32);
  for (std::uint32_t left = 1 + input.pick(4); left > 0; --left) {
    const bool plain = input.pick(4) == 0;
    scene.kinds.push_back(plain ? Term::Kind::plain : Term::Kind::encoded);
    scene.bytes.push_back(plain ? any_elements(input, scene.count, scene.dtype)
                                : any_bytes(input, scene.codec->encoded_bytes(scene.count, scene.dtype)));
  }
  return scene;
}

// The terms of a scene in memory of their own, for one call.
class Terms {
 public:
  explicit Terms(const Scene& scene) {
    for (std::size_t i = 0; i < scene.kinds.size(); ++i) {
      const bool plain = scene.kinds[i] == Term::Kind::plain;
      const std::size_t offset = plain ? scene.element_offset * element_bytes(scene.dtype) : scene.offset;
      memory_.emplace_back(scene.bytes[i], offset);
    }
    for (std::size_t i = 0; i < scene.kinds.size(); ++i)
      terms_.push_back({scene.kinds[i], memory_[i].data()});
  }
  std::span<const Term> get() const { return terms_; }
  Placed* first_plain(const Scene& scene) {
    const auto found = std::find(scene.kinds.begin(), scene.kinds.end(), Term::Kind::plain);
    return found == scene.kinds.end() ? nullptr
                                      : &memory_[static_cast<std::size_t>(found - scene.kinds.begin())];
  }

 private:
  std::vector<Placed> memory_;
  std::vector<Term> terms_;
};

struct Outcome {
  std::vector<std::byte> elements;
  bool finite = true;
  std::vector<std::byte> wire;
  std::vector<std::byte> residual;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

void decode(const Scene& scene, Outcome& outcome) {
  Terms terms(scene);
  Placed apart(scene.count * element_bytes(scene.dtype), scene.element_offset * element_bytes(scene.dtype));
  Placed* shared = scene.in_place ? terms.first_plain(scene) : nullptr;
  Placed& out = shared != nullptr ? *shared : apart;
  outcome.finite = scene.codec->decode(
      {terms.get(), scene.count, scene.dtype, scene.op, scene.finish, scene.world, out.data()});
  outcome.elements = out.copy();
}

void encode(const Scene& scene, Outcome& outcome) {
  Terms terms(scene);
  Placed out(scene.codec->encoded_bytes(scene.count, scene.dtype), scene.offset);
  Placed residual(scene.before ? std::as_bytes(std::span(*scene.before)) : std::span<const std::byte>(),
                  scene.element_offset * sizeof(float));
  codec::EncodeArgs args{terms.get(), scene.count,  scene.dtype, scene.op,  {},
                         scene.noise, scene.finish, scene.world, out.data()};
  if (scene.before) {
    auto* values = reinterpret_cast<float*>(residual.data());
    args.feedback = {values, values, !scene.charge};
  }
  scene.codec->encode(args);
  outcome.wire = out.copy();
  outcome.residual = residual.copy();
}

Outcome run_on(codec::simd::Target target, const Scene& scene) {
  const codec::simd::ScopedTarget scope(target);
  Outcome outcome;
  decode(scene, outcome);
  encode(scene, outcome);
  return outcome;
}

void check(const Scene& scene, const Outcome& outcome) {
  const auto is_number = [](float value) { return std::isfinite(value); };
  if (scene.codec->exact()) {
    FERRULE_REQUIRE(outcome.finite);
  } else if (scene.kinds.size() == 1 && scene.kinds[0] == Term::Kind::encoded && scene.dtype == DType::f32) {
    const std::vector<float> values = as_floats(outcome.elements, scene.dtype);
    FERRULE_REQUIRE(outcome.finite == std::all_of(values.begin(), values.end(), is_number));
  }
  if (!scene.before || scene.codec->exact()) return;
  const std::vector<float> after = as_floats(outcome.residual, DType::f32);
  for (std::size_t i = 0; i < after.size(); ++i) {
    FERRULE_REQUIRE_OR(std::isfinite(after[i]) || !std::isfinite((*scene.before)[i]),
                       scene.codec->spec() + " put a NaN or Inf into a residual");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  const Scene scene = any_scene(input);
  const Outcome expected = run_on(codec::simd::kScalar, scene);
  check(scene, expected);
  static const auto targets = codec::simd::available_targets();
  for (const auto target : targets) {
    if (target == codec::simd::kScalar) continue;
    FERRULE_REQUIRE_OR(run_on(target, scene) == expected,
                       scene.codec->spec() + " on " + codec::simd::target_name(target));
  }
  return 0;
}
