// Whole calls of a block codec in lanes (included once a target): the counterpart of
// src/codec/block_codec.cpp, with the same order of additions.
//
// Terms are added in registers, kChunk vectors at a time, whatever their number: each is read once. Blocks
// are pipelined by one: while a block is quantised, the next one's sum and scale are already on their way,
// which hides the latency of two divisions per block. The full blocks of a call are done here; the driver
// does what is left.
#if defined(FERRULE_CODEC_SIMD_BLOCK_CALL_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRULE_CODEC_SIMD_BLOCK_CALL_INL_
#undef FERRULE_CODEC_SIMD_BLOCK_CALL_INL_
#else
#define FERRULE_CODEC_SIMD_BLOCK_CALL_INL_
#endif

#include <algorithm>
#include <cstring>

#include "codec/simd/block_sum-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

/// decode with one or many terms.
template <class Format, class Elements>
Decoded decode_blocks(const BlockShape& shape, const DecodeArgs& args) {
  const Geometry<Format> geometry(shape.block, args.count);
  const bool by_scale = args.terms.size() == 1 && args.terms.front().kind == Term::Kind::encoded;
  const bool divides = args.finish && args.op == ReduceOp::avg;
  const float divisor = divides ? static_cast<float>(std::max(args.world, 1U)) : 1.0F;
  const float after_sum = by_scale ? 1.0F : divisor;
  const Sum<Format, Elements> sum(args.terms, args.dtype, geometry, by_scale ? divisor : 1.0F);
  const Elements elements(args.dtype);
  const std::size_t stride = Format::stride(geometry.block);
  auto* const out = static_cast<typename Elements::Stored*>(args.out);
  WordV worst = hn::Zero(Words());
  bool finite = true;
  for (std::size_t number = 0; number < geometry.full; ++number) {
    const BlockPlace place = geometry.place(number);
    if (number + kBlocksAhead < geometry.full) sum.prefetch(geometry.place(number + kBlocksAhead));
    finite &= sum.scales_finite(place);
    for_each_chunk<Format>(geometry.block, [&](std::size_t group, auto first) FERRULE_SIMD_LAMBDA {
      FloatV acc[Format::kChunk];
      sum.template chunk<first>(place, group, acc, worst);
      if (after_sum != 1.0F) {
        const FloatV all = hn::Set(Floats(), after_sum);
        unroll<Format::kChunk>([&](auto k) FERRULE_SIMD_LAMBDA { acc[k] = hn::Div(acc[k], all); });
      }
      auto* at = out + place.first + Format::group_start(group) + first * stride;
      unroll<Format::kChunk>([&](auto k) FERRULE_SIMD_LAMBDA {
        elements.store(acc[k], at);
        at += stride;
      });
    });
  }
  return {geometry.full * geometry.block, finite && largest_lane(worst) < format::kInfinityBits};
}

/// What ranks will hold of a final result: rounded to the dtype, after the division of avg.
struct Rounding {
  explicit Rounding(const EncodeArgs& args)
      : rounds(args.final && args.dtype != DType::f32),
        divisor(rounds && args.op == ReduceOp::avg ? static_cast<float>(std::max(args.world, 1U)) : 1.0F) {}

  /// `value` is divided already; the result is in units of the sum again.
  template <class Elements>
  HWY_INLINE FloatV of(FloatV value, const Elements& elements) const {
    if constexpr (std::is_same_v<Elements, F32Elements>) return value;
    return rounds ? hn::Mul(elements.round(value), hn::Set(Floats(), divisor)) : value;
  }

  bool rounds;
  float divisor;
};

/// What becomes of the error: dropped, the new residual, or added to the residual.
enum class Keep { nothing, error, charge };

/// The residual of one block.
struct Residual {
  Residual(const Feedback& feedback, std::size_t first)
      : before(feedback.before == nullptr ? nullptr : feedback.before + first),
        after(feedback.after == nullptr ? nullptr : feedback.after + first) {}

  /// kMayLose: some errors may be NaN or Inf; those elements keep their residual. So do those whose residual
  /// would overflow, which only a charge can make.
  template <Keep kKeep, bool kMayLose>
  HWY_INLINE void keep(std::size_t at, FloatV error) const {
    const Floats d;
    FloatV kept = error;
    if constexpr (kKeep == Keep::charge || kMayLose) {
      const FloatV old = before != nullptr ? hn::LoadU(d, before + at) : hn::Zero(d);
      if constexpr (kKeep == Keep::charge) kept = hn::Add(old, error);
      const auto largest = hn::Set(Ints(), static_cast<std::int32_t>(format::kInfinityBits - 1));
      const auto lost = hn::Gt(hn::BitCast(Ints(), magnitude(kept)), largest);
      kept = hn::IfThenElse(hn::RebindMask(d, lost), old, kept);
    }
    hn::StoreU(kept, d, after + at);
  }

  const float* before;
  float* after;
};

/// One encode call.
///
/// Functions copy members that they need in a loop into locals: vector stores may alias anything, so members
/// would be read again after each.
template <class Format, class Elements>
class Encode {
 public:
  Encode(const BlockShape& shape, const EncodeArgs& args)
      : args_(args),
        geometry_(shape.block, args.count),
        elements_(args.dtype),
        sum_(args.terms, args.dtype, geometry_, 1.0F),
        stride_(Format::stride(geometry_.block)),
        added_(args.feedback.add ? args.feedback.before : nullptr),
        lies_ready_(is_plain_f32(args) && added_ == nullptr),
        lies_beside_residual_(is_plain_f32(args) && added_ != nullptr),
        stochastic_(shape.stochastic),
        rounding_(args) {}

  std::size_t run() const {
    if (args_.feedback.after == nullptr) return run_blocks<Keep::nothing>();
    return args_.feedback.add ? run_blocks<Keep::error>() : run_blocks<Keep::charge>();
  }

 private:
  /// A block that comes to quantise() is finite if the format has scales, and then so is each error, unless
  /// rounding to the dtype overflows.
  static constexpr bool kMayLose = !Format::kScaled || !std::is_same_v<Elements, F32Elements>;
  using ScalarFormat = format::ScaledBlock<typename Format::Scalar>;

  static bool is_plain_f32(const EncodeArgs& args) {
    return std::is_same_v<Elements, F32Elements> && args.terms.size() == 1 &&
           args.terms.front().kind == Term::Kind::plain;
  }

  /// A block whose sum is known.
  struct Gathered {
    BlockPlace place;
    const float* values;
    std::uint32_t amax;
  };

  template <Keep kKeep>
  HWY_NOINLINE std::size_t run_blocks() const {
    alignas(64) float tiles[2 * format::kLargestBlock];
    Gathered current{};
    for (std::size_t number = 0; number <= geometry_.full; ++number) {
      Gathered next{};
      if (number + kBlocksAhead < geometry_.full) prefetch(geometry_.place(number + kBlocksAhead));
      if (number < geometry_.full) {
        next = gather(geometry_.place(number), tiles + (number & 1) * geometry_.block);
      }
      if (number > 0) encode_block<kKeep>(current);
      current = next;
    }
    return geometry_.full * geometry_.block;
  }

  HWY_INLINE void prefetch(const BlockPlace& place) const {
    sum_.prefetch(place);
    if (added_ != nullptr) prefetch_bytes(added_ + place.first, geometry_.block * sizeof(float));
  }

  /// Adds the terms and the residual into `tile`; one plain fp32 term alone is used where it lies.
  HWY_INLINE Gathered gather(const BlockPlace& place, float* tile) const {
    if (lies_ready_) {
      const float* values = static_cast<const float*>(args_.terms.front().data) + place.first;
      return {place, values, Format::kScaled ? largest(values) : 0};
    }
    if (lies_beside_residual_) {
      const float* values = static_cast<const float*>(args_.terms.front().data) + place.first;
      return {place, tile, add_residual(values, added_ + place.first, tile)};
    }
    return {place, tile, add_up(place, tile)};
  }

  /// The first encode of a step: one plain fp32 term and the residual, in the order of memory.
  HWY_INLINE std::uint32_t add_residual(const float* values, const float* before, float* tile) const {
    const std::size_t count = geometry_.block;
    const std::size_t lanes = hn::Lanes(Floats());
    WordV amax0 = hn::Zero(Words());
    WordV amax1 = amax0;
    for (std::size_t i = 0; i < count; i += 2 * lanes) {
      const FloatV a = hn::Add(hn::LoadU(Floats(), values + i), hn::LoadU(Floats(), before + i));
      const std::size_t next = i + lanes;
      const FloatV b = hn::Add(hn::LoadU(Floats(), values + next), hn::LoadU(Floats(), before + next));
      amax0 = larger(amax0, magnitude(a));
      amax1 = larger(amax1, magnitude(b));
      hn::StoreU(a, Floats(), tile + i);
      hn::StoreU(b, Floats(), tile + next);
    }
    return largest_lane(larger(amax0, amax1));
  }

  HWY_NOINLINE std::uint32_t add_up(const BlockPlace& place, float* tile) const {
    WordV worst = hn::Zero(Words());
    WordV amax = hn::Zero(Words());
    const Sum<Format, Elements> sum = sum_;
    const BlockPlace at_block = place;
    const std::size_t stride = stride_;
    const float* const added = added_ == nullptr ? nullptr : added_ + place.first;
    for_each_chunk<Format>(geometry_.block, [&](std::size_t group, auto first) FERRULE_SIMD_LAMBDA {
      FloatV acc[Format::kChunk];
      sum.template chunk<first>(at_block, group, acc, worst);
      const std::size_t start = Format::group_start(group) + first * stride;
      if (added != nullptr) {
        const float* before = added + start;
        unroll<Format::kChunk>([&](auto k) FERRULE_SIMD_LAMBDA {
          acc[k] = hn::Add(acc[k], hn::LoadU(Floats(), before));
          before += stride;
        });
      }
      float* at = tile + start;
      unroll<Format::kChunk>([&](auto k) FERRULE_SIMD_LAMBDA {
        amax = larger(amax, magnitude(acc[k]));
        hn::StoreU(acc[k], Floats(), at);
        at += stride;
      });
    });
    return largest_lane(amax);
  }

  HWY_INLINE std::uint32_t largest(const float* values) const {
    WordV amax0 = hn::Zero(Words());
    WordV amax1 = amax0;
    const std::size_t lanes = hn::Lanes(Floats());
    for (std::size_t i = 0; i < geometry_.block; i += 4 * lanes) {
      amax0 = larger(amax0, magnitude(hn::LoadU(Floats(), values + i)));
      amax1 = larger(amax1, magnitude(hn::LoadU(Floats(), values + i + lanes)));
      amax0 = larger(amax0, magnitude(hn::LoadU(Floats(), values + i + 2 * lanes)));
      amax1 = larger(amax1, magnitude(hn::LoadU(Floats(), values + i + 3 * lanes)));
    }
    return largest_lane(larger(amax0, amax1));
  }

  template <Keep kKeep>
  HWY_INLINE void encode_block(const Gathered& block) const {
    if (Format::kScaled && block.amax >= format::kInfinityBits) return encode_rare<kKeep>(block);
    const auto scale = Format::Scalar::scale_for(block.amax);
    if (!Format::takes_scale(scale)) return encode_rare<kKeep>(block);
    if constexpr (Format::kScaled) format::store_u16(args_.out + block.place.header, scale.wire);
    const auto encoder = Format::encoder(scale, rounding_.divisor);
    if (Format::kScaled && stochastic_) {
      alignas(64) float dither[format::kLargestBlock];
      fill_dither(args_.noise.key, args_.noise.first_element + block.place.first, geometry_.block, dither);
      quantise<kKeep, true>(block, encoder, dither);
    } else {
      quantise<kKeep, false>(block, encoder, block.values);
    }
  }

  /// `dither` is walked but not read without kDither.
  template <Keep kKeep, bool kDither, class Encoder>
  HWY_INLINE void quantise(const Gathered& block, const Encoder& encoder, const float* dither) const {
    const std::size_t groups = Format::groups(geometry_.block);
    const std::size_t stride = stride_;
    const float* const values = block.values;
    const Elements elements = elements_;
    const Rounding rounding = rounding_;
    const Residual residual(args_.feedback, block.place.first);
    std::byte* codes = args_.out + block.place.payload;
    for (std::size_t group = 0; group < groups; ++group, codes += Format::group_bytes()) {
      typename Format::Packer packer;
      std::size_t at = Format::group_start(group);
      unroll<Format::kVectors>([&](auto j) FERRULE_SIMD_LAMBDA {
        const FloatV value = hn::LoadU(Floats(), values + at);
        const auto code = Format::template encode<kDither>(value, encoder, dither + at);
        packer.template put<j>(code, codes);
        if constexpr (kKeep != Keep::nothing) {
          const FloatV held = rounding.of(Format::deliver(code, encoder, rounding.divisor), elements);
          residual.template keep<kKeep, kMayLose>(at, hn::Sub(value, held));
        }
        at += stride;
      });
      packer.finish(codes);
    }
  }

  /// Blocks with a NaN or Inf, or with a denormal scale: the scalar format does them.
  template <Keep kKeep>
  HWY_NOINLINE void encode_rare(const Gathered& block) const {
    format::BlockAt at = geometry_.block_at();
    at.first_element = args_.noise.first_element + block.place.first;
    at.stochastic = stochastic_;
    if (stochastic_) at.noise = format::NoiseStream::at(args_.noise.key, at.first_element);
    std::byte* header = args_.out + block.place.header;
    std::byte* payload = args_.out + block.place.payload;
    ScalarFormat::encode(block.values, at, header, payload);
    if constexpr (kKeep == Keep::nothing) return;
    const Residual residual(args_.feedback, block.place.first);
    float held[format::kLargestBlock];
    ScalarFormat::decode(header, payload, geometry_.block_at(rounding_.divisor), held);
    for (std::size_t i = 0; i < geometry_.block; i += hn::Lanes(Floats())) {
      const FloatV value = rounding_.of(hn::LoadU(Floats(), held + i), elements_);
      residual.template keep<kKeep, true>(i, hn::Sub(hn::LoadU(Floats(), block.values + i), value));
    }
  }

  const EncodeArgs& args_;
  Geometry<Format> geometry_;
  Elements elements_;
  Sum<Format, Elements> sum_;
  std::size_t stride_;
  const float* added_;  ///< the residual, where it is part of what is encoded
  bool lies_ready_;     ///< the values of a block need no gathering
  bool lies_beside_residual_;
  bool stochastic_;
  Rounding rounding_;
};

/// Elements done from the first on: whole blocks, 0 where this target's vectors do not fit the block.
template <class Format>
std::size_t encode_call(const BlockShape& shape, const EncodeArgs& args) {
  if (!Format::takes(Geometry<Format>(shape.block, 0).block)) return 0;
  if (args.dtype == DType::f32) return Encode<Format, F32Elements>(shape, args).run();
  return Encode<Format, HalfElements>(shape, args).run();
}

template <class Format>
Decoded decode_call(const BlockShape& shape, const DecodeArgs& args) {
  if (!Format::takes(Geometry<Format>(shape.block, 0).block)) return {};
  if (args.dtype == DType::f32) return decode_blocks<Format, F32Elements>(shape, args);
  return decode_blocks<Format, HalfElements>(shape, args);
}

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#endif  // FERRULE_CODEC_SIMD_BLOCK_CALL_INL_
