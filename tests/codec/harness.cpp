#include "codec/harness.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>

#include "codec/elements.hpp"
#include "support/guard_buffer.hpp"

namespace ferrule::codec::testing {
namespace {

using ferrule::testing::GuardBuffer;

std::vector<std::byte> copy_of(const GuardBuffer& buffer) {
  return {buffer.bytes().begin(), buffer.bytes().end()};
}

// The terms of a call in guarded memory; checks afterwards that nobody wrote to them.
class GuardedTerms {
 public:
  GuardedTerms(const Case& at, const std::vector<Input>& inputs) : inputs_(inputs) {
    for (const Input& input : inputs) {
      const bool plain = input.kind == Term::Kind::plain;
      const std::size_t slack = plain ? at.element_slack * element_bytes(at.dtype) : at.wire_slack;
      GuardBuffer& buffer = buffers_.emplace_back(input.bytes.size(), slack);
      std::copy(input.bytes.begin(), input.bytes.end(), buffer.data());
      terms_.push_back({input.kind, buffer.data()});
    }
  }
  std::span<const Term> terms() const { return terms_; }
  GuardBuffer& buffer(int index) { return buffers_[static_cast<std::size_t>(index)]; }

  void expect_untouched(int except) const {
    for (std::size_t i = 0; i < inputs_.size(); ++i) {
      EXPECT_TRUE(buffers_[i].intact()) << "wrote around term " << i;
      if (static_cast<int>(i) == except) continue;
      EXPECT_EQ(copy_of(buffers_[i]), inputs_[i].bytes) << "wrote to term " << i;
    }
  }

 private:
  const std::vector<Input>& inputs_;
  std::deque<GuardBuffer> buffers_;
  std::vector<Term> terms_;
};

// Residuals before and after: one array or two.
class GuardedResidual {
 public:
  GuardedResidual(const EncodeOptions& options, std::size_t slack_elements)
      : kept_(options.keep != Keep::nothing),
        before_(options.before.size() * sizeof(float), slack_elements * sizeof(float)),
        after_(options.before.size() * sizeof(float), slack_elements * sizeof(float)),
        in_place_(options.in_place_residual),
        add_(options.keep != Keep::charge) {
    std::copy(options.before.begin(), options.before.end(), before_.as<float>());
  }
  Feedback feedback() {
    if (!kept_) return {};
    return {before_.as<float>(), in_place_ ? before_.as<float>() : after_.as<float>(), add_};
  }
  std::vector<float> result() const {
    EXPECT_TRUE(before_.intact() && after_.intact()) << "wrote around the residual";
    if (!kept_) return {};
    const std::span<const float> values = (in_place_ ? before_ : after_).view<float>();
    return {values.begin(), values.end()};
  }

 private:
  bool kept_;
  GuardBuffer before_;
  GuardBuffer after_;
  bool in_place_;
  bool add_;
};

std::vector<std::byte> as_bytes(const std::vector<float>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

std::string Case::describe() const {
  return fmt::format("{} x {} {}, wire slack {} bytes, element slack {}", length, dtype_name(dtype),
                     values_name(values), wire_slack, element_slack);
}

std::unique_ptr<const Codec> make_or_fail(const std::string& spec) {
  auto made = make_codec(spec);
  EXPECT_TRUE(made.ok()) << made.status().text();
  return made.ok() ? std::move(*made) : nullptr;
}

std::vector<std::byte> to_elements(std::span<const float> values, DType dtype) {
  std::vector<std::byte> elements(values.size() * element_bytes(dtype));
  store_elements(values.data(), dtype, 0, values.size(), elements.data());
  return elements;
}

std::vector<float> to_floats(std::span<const std::byte> elements, DType dtype) {
  std::vector<float> values(elements.size() / element_bytes(dtype));
  load_elements(elements.data(), dtype, 0, values.size(), values.data());
  return values;
}

Encoded run_encode(const Codec& codec, const Case& at, const std::vector<Input>& terms,
                   const EncodeOptions& options) {
  GuardedTerms guarded(at, terms);
  GuardedResidual residual(options, at.element_slack);
  GuardBuffer wire(codec.encoded_bytes(at.length, at.dtype), at.wire_slack);
  EncodeArgs args;
  args.terms = guarded.terms();
  args.count = at.length;
  args.dtype = at.dtype;
  args.op = options.op;
  args.feedback = residual.feedback();
  args.noise = options.noise;
  args.final = options.final;
  args.world = options.world;
  args.out = wire.data();
  codec.encode(args);
  guarded.expect_untouched(-1);
  EXPECT_TRUE(wire.intact()) << "wrote around the wire bytes";
  return {copy_of(wire), residual.result()};
}

Decoded run_decode(const Codec& codec, const Case& at, const std::vector<Input>& terms,
                   const DecodeOptions& options) {
  GuardedTerms guarded(at, terms);
  GuardBuffer apart(at.length * element_bytes(at.dtype), at.element_slack * element_bytes(at.dtype));
  GuardBuffer& out = options.in_place_of >= 0 ? guarded.buffer(options.in_place_of) : apart;
  DecodeArgs args;
  args.terms = guarded.terms();
  args.count = at.length;
  args.dtype = at.dtype;
  args.op = options.op;
  args.finish = options.finish;
  args.world = options.world;
  args.out = out.data();
  const bool finite = codec.decode(args);
  guarded.expect_untouched(options.in_place_of);
  EXPECT_TRUE(out.intact()) << "wrote around the output";
  return {copy_of(out), finite};
}

std::vector<Entry> transcript(const Codec& codec, const Case& at) {
  std::vector<Entry> entries;
  const auto keep_encoded = [&](const std::string& name, Encoded encoded) {
    entries.push_back({name, encoded.wire});
    entries.push_back({name + " residual", as_bytes(encoded.residual)});
    return Input{Term::Kind::encoded, std::move(encoded.wire)};
  };
  const auto keep_decoded = [&](const std::string& name, Decoded decoded) {
    decoded.elements.push_back(static_cast<std::byte>(decoded.finite));
    entries.push_back({name, std::move(decoded.elements)});
  };
  const auto plain = [&](Values values, std::uint64_t seed) {
    return Input{Term::Kind::plain, to_elements(make_values(values, at.length, seed, at.dtype), at.dtype)};
  };
  const Input mine = plain(at.values, 1);
  const Input other = plain(Values::normal, 2);
  const Noise noise{noise_key(7, 1, 2, 3), 4096};
  const std::vector<float> before = make_values(Values::normal, at.length, 3);
  const auto with = [&](Keep keep, bool final, ReduceOp op = ReduceOp::sum) {
    return EncodeOptions{keep, keep == Keep::nothing ? std::vector<float>{} : before, op, final, 3, noise,
                         true};
  };
  EncodeOptions apart = with(Keep::add, false);
  apart.in_place_residual = false;

  const Input a = keep_encoded("encode", run_encode(codec, at, {mine}, with(Keep::nothing, false)));
  const Input b =
      keep_encoded("encode with residual", run_encode(codec, at, {other}, with(Keep::add, false)));
  keep_encoded("encode with residual apart", run_encode(codec, at, {mine}, apart));
  keep_encoded("encode charged", run_encode(codec, at, {mine}, with(Keep::charge, false)));
  keep_encoded("encode final", run_encode(codec, at, {mine}, with(Keep::add, true, ReduceOp::avg)));
  keep_encoded("hop", run_encode(codec, at, {b, mine}, with(Keep::add, false)));
  keep_encoded("hop without residual", run_encode(codec, at, {b, mine}, with(Keep::nothing, false)));
  keep_encoded("reduce of 3", run_encode(codec, at, {b, mine, a}, with(Keep::add, true)));
  keep_encoded("reduce of 5",
               run_encode(codec, at, {b, a, mine, b, a}, with(Keep::charge, true, ReduceOp::avg)));
  keep_decoded("decode", run_decode(codec, at, {a}));
  keep_decoded("decode average", run_decode(codec, at, {a}, {ReduceOp::avg, true, 3, -1}));
  keep_decoded("decode_add", run_decode(codec, at, {other, a}, {ReduceOp::sum, false, 1, 0}));
  keep_decoded("decode_add finish", run_decode(codec, at, {mine, b}, {ReduceOp::avg, true, 3, 0}));
  keep_decoded("decode of 4", run_decode(codec, at, {a, mine, b, a}, {ReduceOp::avg, true, 4, -1}));
  return entries;
}

std::string first_difference(const std::vector<Entry>& a, const std::vector<Entry>& b) {
  if (a.size() != b.size()) return "the number of operations";
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].bytes == b[i].bytes) continue;
    const auto differ =
        std::mismatch(a[i].bytes.begin(), a[i].bytes.end(), b[i].bytes.begin(), b[i].bytes.end());
    return fmt::format("{}, byte {} of {}", a[i].operation, differ.first - a[i].bytes.begin(),
                       a[i].bytes.size());
  }
  return {};
}

}  // namespace ferrule::codec::testing
