// Encodes of any elements with any residual: what every rank decodes is within the codec's bound, and what it
// lacks is in the residual (the ledger); bit for bit alike on every instruction set.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "codec/simd/target.hpp"
#include "fuzz/codec_input.hpp"

namespace {

using namespace ferrule;
using namespace ferrule::fuzz;

struct Scene {
  const codec::Codec* codec = nullptr;
  DType dtype = DType::f32;
  ReduceOp op = ReduceOp::sum;
  std::size_t count = 0;
  std::uint32_t world = 1;
  bool final = false;
  bool add = true;
  codec::Noise noise;
  std::vector<std::byte> elements;
  std::vector<float> before;
};

Scene any_scene(Input& input) {
  Scene scene;
  scene.codec = &any_codec(input);
  const std::uint8_t flags = input.take<std::uint8_t>();
  scene.op = (flags & 1U) != 0 ? ReduceOp::avg : ReduceOp::sum;
  scene.final = (flags & 2U) != 0;
  scene.add = (flags & 4U) == 0;
  scene.world = scene.op == ReduceOp::avg && scene.final ? 1U + (flags >> 4) : 1U;
  scene.dtype = any_dtype(input, *scene.codec, scene.op);
  scene.count = any_count(input, scene.codec->block());
  scene.noise = {input.take<std::uint32_t>(), input.take<std::uint16_t>() * scene.codec->block()};
  scene.before.assign(scene.count, 0.0F);
  if ((flags & 8U) != 0) scene.before = as_floats(any_elements(input, scene.count, DType::f32), DType::f32);
  scene.elements = any_elements(input, scene.count, scene.dtype);
  return scene;
}

// Only a final encode measures its error against what ranks store; the others against what they add, in fp32.
DType decoded_dtype(const Scene& scene) {
  return scene.final || scene.codec->exact() ? scene.dtype : DType::f32;
}

struct Outcome {
  std::vector<std::byte> wire;
  std::vector<std::byte> residual;
  std::vector<std::byte> decoded;

  friend bool operator==(const Outcome&, const Outcome&) = default;
};

Outcome run_on(codec::simd::Target target, const Scene& scene) {
  const codec::simd::ScopedTarget scope(target);
  Placed in(scene.elements, 0);
  Placed residual(std::as_bytes(std::span(scene.before)), 0);
  Placed wire(scene.codec->encoded_bytes(scene.count, scene.dtype), 1);
  Placed out(scene.count * element_bytes(decoded_dtype(scene)), 0);
  const codec::Term plain{codec::Term::Kind::plain, in.data()};
  auto* values = reinterpret_cast<float*>(residual.data());
  scene.codec->encode({{&plain, 1},
                       scene.count,
                       scene.dtype,
                       scene.op,
                       {values, values, scene.add},
                       scene.noise,
                       scene.final,
                       scene.world,
                       wire.data()});
  const codec::Term encoded{codec::Term::Kind::encoded, wire.data()};
  scene.codec->decode(
      {{&encoded, 1}, scene.count, decoded_dtype(scene), scene.op, scene.final, scene.world, out.data()});
  return {wire.copy(), residual.copy(), out.copy()};
}

// Half a unit in the last place of what is stored as dtype.
double storage_error(double magnitude, DType dtype) {
  if (dtype == DType::f32) return magnitude * 0x1p-24;
  return dtype == DType::f16 ? magnitude * 0x1p-11 + 0x1p-25 : magnitude * 0x1p-8 + 0x1p-134;
}

class Check {
 public:
  Check(const Scene& scene, const Outcome& outcome)
      : scene_(scene),
        x_(as_floats(scene.elements, scene.dtype)),
        y_(as_floats(outcome.decoded, decoded_dtype(scene))),
        after_(as_floats(outcome.residual, DType::f32)) {}

  void run() const {
    const std::size_t block = scene_.codec->block();
    for (std::size_t first = 0; first < scene_.count; first += block) {
      check_block(first, std::min(first + block, scene_.count));
    }
  }

 private:
  // What is encoded, as the codec computes it: in fp32.
  float encoded(std::size_t i) const { return scene_.add ? x_[i] + scene_.before[i] : x_[i]; }

  void check_block(std::size_t first, std::size_t end) const {
    double peak = 0;
    double largest = 0;  // residuals included
    bool finite = true;
    for (std::size_t i = first; i < end; ++i) {
      finite = finite && std::isfinite(encoded(i));
      peak = std::max(peak, std::fabs(double{encoded(i)}));
      largest = std::max({largest, std::fabs(double{x_[i]}), std::fabs(double{scene_.before[i]})});
    }
    for (std::size_t i = first; i < end; ++i) {
      if (!std::isfinite(encoded(i))) FERRULE_REQUIRE_OR(!std::isfinite(y_[i]), text(i));
      if (std::isfinite(scene_.before[i])) FERRULE_REQUIRE_OR(std::isfinite(after_[i]), text(i));
      if (!std::isfinite(y_[i])) {
        FERRULE_REQUIRE_OR(same_bits(after_[i], scene_.before[i]), text(i));
      } else if (finite && std::isfinite(largest)) {
        check_numbers(i, peak, largest);
      }
    }
  }

  void check_numbers(std::size_t i, double peak, double largest) const {
    const double delivered = double{y_[i]} * scene_.world;
    const double bound = scene_.codec->relative_bound() * peak + scene_.codec->absolute_bound();
    const double stored = storage_error(std::fabs(y_[i]), decoded_dtype(scene_)) * scene_.world;
    // An average's scale may be a denormal: it then has lost digits, which world and the largest code
    // multiply.
    const double floor = scene_.world > 1 ? scene_.world * 128 * 0x1p-149 : 0x1p-148;
    FERRULE_REQUIRE_OR(
        std::fabs(delivered - encoded(i)) <= bound * (1 + 0x1p-20) + stored + floor + peak * 0x1p-22,
        text(i));
    if (!std::isfinite(scene_.before[i])) return;
    // Near the largest number an error may not fit into the residual, which then stays as it was.
    if (same_bits(after_[i], scene_.before[i]) && largest > 0x1p126) return;
    const double in = double{x_[i]} + scene_.before[i];
    FERRULE_REQUIRE_OR(std::fabs(in - delivered - after_[i]) <= 1e-6 * largest + floor, text(i));
  }

  static bool same_bits(float a, float b) { return std::memcmp(&a, &b, sizeof a) == 0; }

  std::string text(std::size_t i) const {
    char line[256];
    std::snprintf(line, sizeof line,
                  "%s, %zu x %s, world %u, final %d, add %d: element %zu %a, residual %a became %a, %a",
                  scene_.codec->spec().c_str(), scene_.count, std::string(dtype_name(scene_.dtype)).c_str(),
                  scene_.world, scene_.final, scene_.add, i, static_cast<double>(x_[i]),
                  static_cast<double>(scene_.before[i]), static_cast<double>(y_[i]),
                  static_cast<double>(after_[i]));
    return line;
  }

  const Scene& scene_;
  std::vector<float> x_;
  std::vector<float> y_;
  std::vector<float> after_;
};

void check_exact(const Scene& scene, const Outcome& outcome) {
  FERRULE_REQUIRE(outcome.residual.size() == scene.before.size() * sizeof(float));
  FERRULE_REQUIRE(outcome.residual.empty() ||
                  std::memcmp(outcome.residual.data(), scene.before.data(), outcome.residual.size()) == 0);
  if (scene.world == 1) FERRULE_REQUIRE(outcome.decoded == scene.elements);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  Input input(data, bytes);
  const Scene scene = any_scene(input);
  const Outcome expected = run_on(codec::simd::kScalar, scene);
  scene.codec->exact() ? check_exact(scene, expected) : Check(scene, expected).run();
  static const auto targets = codec::simd::available_targets();
  for (const auto target : targets) {
    if (target == codec::simd::kScalar) continue;
    FERRULE_REQUIRE_OR(run_on(target, scene) == expected,
                       scene.codec->spec() + " on " + codec::simd::target_name(target));
  }
  return 0;
}
