// Whole calls of block top-k in lanes (included once a target): the counterpart of src/codec/block_codec.cpp
// with format::BlockTopK, with the same order of additions.
//
// Cost of the usual encode, for a block in cache: two passes over it, and about ten operations for each
// element that is kept. The bound of the block before is where the search begins; what is kept never depends
// on it.
#if defined(FERRULE_CODEC_SIMD_TOPK_CALL_INL_) == defined(HWY_TARGET_TOGGLE)
#ifdef FERRULE_CODEC_SIMD_TOPK_CALL_INL_
#undef FERRULE_CODEC_SIMD_TOPK_CALL_INL_
#else
#define FERRULE_CODEC_SIMD_TOPK_CALL_INL_
#endif

#include "codec/elements.hpp"
#include "codec/simd/block_call-inl.hpp"
#include "codec/simd/topk_read-inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

/// format::pack_positions, in words.
HWY_INLINE void write_positions(const std::uint16_t* positions, const format::TopKLayout& layout,
                                std::byte* out) {
  if (layout.bitmap) return format::pack_positions(positions, layout, out);
  std::uint64_t pending = 0;
  unsigned bits = 0;
  for (std::size_t j = 0; j < layout.kept; ++j) {
    pending |= std::uint64_t{positions[j]} << bits;
    bits += layout.index_bits;
    if (bits < 32) continue;
    format::store_u32(out, static_cast<std::uint32_t>(pending));
    out += 4;
    pending >>= 32;
    bits -= 32;
  }
  for (; bits > 0; bits -= std::min(bits, 8U), pending >>= 8) {
    format::store_byte(out++, static_cast<std::uint32_t>(pending));
  }
}

/// One encode call.
template <class Element, class Elements>
class TopKEncode {
 public:
  TopKEncode(const BlockShape& shape, const EncodeArgs& args)
      : args_(args),
        call_(shape, args.count),
        geometry_(shape.block, shape.kept),
        sum_(call_, args.terms, args.dtype, 1.0F),
        added_(args.feedback.add ? args.feedback.before : nullptr),
        single_(std::is_same_v<Elements, F32Elements> && args.terms.size() == 1 &&
                args.terms.front().kind == Term::Kind::plain),
        rounding_(args),
        // What was not kept is the residual as it stands, and is written on the way.
        keeps_early_(args.feedback.after != nullptr && args.feedback.add && !rounding_.rounds) {}

  std::size_t run() {
    std::uint32_t guess = 0;
    for (std::size_t number = 0; number < call_.full; ++number) {
      const BlockPlace place = call_.place(number);
      next_ = number + 1 < call_.full ? place.first + call_.block : place.first;
      encode_block(place, guess);
    }
    return call_.full * call_.block;
  }

 private:
  using Format = format::BlockTopK<Element>;

  const float* input(std::size_t first) const {
    return static_cast<const float*>(args_.terms.front().data) + first;
  }

  HWY_NOINLINE void encode_block(const BlockPlace& place, std::uint32_t& guess) {
    Maxima maxima;
    const float* const values = gather(place, maxima);
    const std::uint32_t largest = maxima.largest();
    if (largest >= format::kInfinityBits) return encode_nan(place);
    Bracket bracket{maxima.smallest(), largest + 1, geometry_.groups};
    bisect(scratch_.maxima, geometry_.groups, call_.kept, call_.kept + call_.kept / 4, guess, bracket);
    guess = bracket.low;
    mark_block(place, values, std::max(bracket.low, 1U));
    choose_marked(values, geometry_, std::max(bracket.low, 1U), largest, scratch_);
    write_block(place, values, largest);
  }

  /// The sum of the terms and the residual, and its maxima. One plain fp32 term alone is used where it lies.
  HWY_INLINE const float* gather(const BlockPlace& place, Maxima& maxima) {
    const Floats d;
    if (single_ && added_ == nullptr) {
      const float* const values = input(place.first);
      maxima.take(geometry_, scratch_.maxima,
                  [&](std::size_t i) FERRULE_SIMD_LAMBDA { return hn::LoadU(d, values + i); });
      return values;
    }
    float* const tile = tile_;
    const float* const before = added_ == nullptr ? nullptr : added_ + place.first;
    if (single_) {
      const float* const values = input(place.first);
      maxima.take(geometry_, scratch_.maxima, [&](std::size_t i) FERRULE_SIMD_LAMBDA {
        const FloatV all = hn::Add(hn::LoadU(d, values + i), hn::LoadU(d, before + i));
        hn::Store(all, d, tile + i);
        return all;
      });
      return tile;
    }
    sum_.block(place, tile);
    maxima.take(geometry_, scratch_.maxima, [&](std::size_t i) FERRULE_SIMD_LAMBDA {
      FloatV all = hn::Load(d, tile + i);
      if (before == nullptr) return all;
      all = hn::Add(all, hn::LoadU(d, before + i));
      hn::Store(all, d, tile + i);
      return all;
    });
    return tile;
  }

  /// Marks the candidates, asks for the next block, and stores what may be stored already.
  HWY_INLINE void mark_block(const BlockPlace& place, const float* values, std::uint32_t bound) {
    const Floats d;
    const float* const next = single_ ? input(next_) : values;
    const float* const next_before = added_ == nullptr ? next : added_ + next_;
    if (!keeps_early_) {
      return mark(values, call_.block, bound, scratch_.marks,
                  [&](std::size_t i, FloatV) FERRULE_SIMD_LAMBDA { hwy::Prefetch(next + i); });
    }
    float* const after = args_.feedback.after + place.first;
    mark(values, call_.block, bound, scratch_.marks, [&](std::size_t i, FloatV value) FERRULE_SIMD_LAMBDA {
      hwy::Prefetch(next + i);
      hwy::Prefetch(next_before + i);
      hn::StoreU(value, d, after + i);
    });
  }

  HWY_INLINE void write_block(const BlockPlace& place, const float* values, std::uint32_t largest) {
    const std::uint16_t* const positions = scratch_.positions;
    const std::size_t kept = call_.kept;
    const auto scale = Element::scale_for(largest);
    std::byte* const payload = args_.out + place.payload;
    std::byte* const codes = payload + call_.layout.position_bytes;
    write_positions(positions, call_.layout, payload);
    if constexpr (Format::kScaled) format::store_u16(args_.out + place.header, scale.wire);
    for (std::size_t j = 0; j < kept; ++j) chosen_[j] = values[positions[j]];
    for (std::size_t j = 0; j < kept; ++j) {
      Format::store_value(codes + Format::kValueBytes * j, Element::encode(chosen_[j], scale, 0.0F));
    }
    if (args_.feedback.after == nullptr) return;
    const format::BlockAt at = call_.block_at(rounding_.divisor);
    const float unit = Format::read_scale(args_.out + place.header, at);
    for (std::size_t j = 0; j < kept; ++j) {
      held_[j] = Format::value_of(codes + Format::kValueBytes * j, unit, rounding_.divisor);
    }
    if (keeps_early_) return keep_chosen(args_.feedback.after + place.first);
    keep_all(place, values);
  }

  /// The errors of what was sent. They are finite: so are the values and what becomes of them.
  HWY_INLINE void keep_chosen(float* after) const {
    for (std::size_t j = 0; j < call_.kept; ++j) after[scratch_.positions[j]] = chosen_[j] - held_[j];
  }

  /// The rarer residuals, in a pass of their own: charged, or of a result that is rounded.
  HWY_NOINLINE void keep_all(const BlockPlace& place, const float* values) {
    const std::uint16_t* const positions = scratch_.positions;
    if (rounding_.rounds) {
      round_to_dtype(args_.dtype, call_.kept, held_);
      for (std::size_t j = 0; j < call_.kept; ++j) held_[j] *= rounding_.divisor;
    }
    const float* const before =
        args_.feedback.before == nullptr ? nullptr : args_.feedback.before + place.first;
    float* const after = args_.feedback.after + place.first;
    for (std::size_t j = 0; j < call_.kept; ++j) old_[j] = before == nullptr ? 0.0F : before[positions[j]];
    const bool add = args_.feedback.add;
    for (std::size_t i = 0; i < call_.block; ++i) {
      const float old = before == nullptr ? 0.0F : before[i];
      const float kept = add ? values[i] : old + values[i];
      after[i] = format::is_finite(kept) ? kept : old;
    }
    for (std::size_t j = 0; j < call_.kept; ++j) {
      const float error = chosen_[j] - held_[j];
      const float kept = add ? error : old_[j] + error;
      after[positions[j]] = format::is_finite(kept) ? kept : old_[j];
    }
  }

  HWY_NOINLINE void encode_nan(const BlockPlace& place) const {
    Format::encode_nan(call_.layout, args_.out + place.header, args_.out + place.payload);
    const Feedback& feedback = args_.feedback;
    if (feedback.after == nullptr || feedback.after == feedback.before) return;
    float* const after = feedback.after + place.first;
    if (feedback.before == nullptr) return fill(after, call_.block, 0.0F);
    std::copy_n(feedback.before + place.first, call_.block, after);
  }

  const EncodeArgs& args_;
  TopKCall<Format> call_;
  TopKGeometry geometry_;
  TopKSum<Format, Elements> sum_;
  const float* added_;  ///< the residual, where it is part of what is encoded
  bool single_;         ///< one plain fp32 term
  Rounding rounding_;
  bool keeps_early_;
  std::size_t next_ = 0;  ///< first element of the next block
  TopKScratch scratch_;
  alignas(64) float tile_[format::kLargestTopKBlock];
  alignas(64) float chosen_[format::kMostKept];  ///< what was kept, before
  alignas(64) float held_[format::kMostKept];    ///< and as ranks will hold it
  alignas(64) float old_[format::kMostKept];     ///< the residuals of the same
};

template <class Element>
std::size_t encode_topk_call(const BlockShape& shape, const EncodeArgs& args) {
  if (!takes_topk_lanes()) return 0;
  if (args.dtype == DType::f32) return TopKEncode<Element, F32Elements>(shape, args).run();
  return TopKEncode<Element, HalfElements>(shape, args).run();
}

/// decode where the result is the memory of the first term, and only what was sent is touched.
template <class Format>
Decoded add_in_place(const TopKCall<Format>& call, const DecodeArgs& args) {
  TopKSum<Format, F32Elements> sum(call, args.terms, args.dtype, 1.0F);
  bool finite = true;
  for (std::size_t number = 0; number < call.full; ++number) {
    const BlockPlace place = call.place(number);
    finite &= sum.add(args.terms.subspan(1), place, static_cast<float*>(args.out) + place.first);
  }
  return {call.full * call.block, finite};
}

template <class Format, class Elements>
Decoded decode_topk_blocks(const TopKCall<Format>& call, const DecodeArgs& args) {
  const bool lone = args.terms.size() == 1 && args.terms.front().kind == Term::Kind::encoded;
  const bool divides = args.finish && args.op == ReduceOp::avg;
  const float divisor = divides ? static_cast<float>(std::max(args.world, 1U)) : 1.0F;
  const FloatV after_sum = hn::Set(Floats(), lone ? 1.0F : divisor);
  const Elements elements(args.dtype);
  TopKSum<Format, Elements> sum(call, args.terms, args.dtype, lone ? divisor : 1.0F);
  alignas(64) float tile[format::kLargestTopKBlock];
  auto* const out = static_cast<typename Elements::Stored*>(args.out);
  bool finite = true;
  for (std::size_t number = 0; number < call.full; ++number) {
    const BlockPlace place = call.place(number);
    if constexpr (std::is_same_v<Elements, F32Elements>) {
      if (lone) {
        finite &= sum.block(place, out + place.first);
        continue;
      }
    }
    finite &= sum.block(place, tile);
    for (std::size_t i = 0; i < call.block; i += hn::Lanes(Floats())) {
      FloatV value = hn::Load(Floats(), tile + i);
      if (!lone && divides) value = hn::Div(value, after_sum);
      elements.store(value, out + place.first + i);
    }
  }
  return {call.full * call.block, finite};
}

template <class Element>
Decoded decode_topk_call(const BlockShape& shape, const DecodeArgs& args) {
  if (!takes_topk_lanes()) return {};
  const TopKCall<format::BlockTopK<Element>> call(shape, args.count);
  if (adds_in_place(args)) return add_in_place(call, args);
  if (args.dtype == DType::f32)
    return decode_topk_blocks<format::BlockTopK<Element>, F32Elements>(call, args);
  return decode_topk_blocks<format::BlockTopK<Element>, HalfElements>(call, args);
}

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#endif  // FERRULE_CODEC_SIMD_TOPK_CALL_INL_
