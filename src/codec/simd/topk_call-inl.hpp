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

/// format::pack_positions, four numbers of up to 12 bits at once. Writes up to seven bytes more.
HWY_INLINE void write_numbers(const std::uint16_t* positions, const format::TopKLayout& layout,
                              std::byte* out) {
  const unsigned width = layout.index_bits;
  std::uint64_t pending = 0;
  unsigned bits = 0;
  for (std::size_t j = 0; j < layout.kept; j += 4) {
    std::uint64_t four;  // in 16 bits each
    std::memcpy(&four, positions + j, sizeof four);
    const std::uint64_t two = (four & 0x0000ffff0000ffffU) | ((four >> 16) & 0x0000ffff0000ffffU) << width;
    pending |= ((two & 0xffffffffU) | (two >> 32) << (2 * width)) << bits;
    std::memcpy(out, &pending, sizeof pending);
    bits += 4 * width;
    out += bits / 8;
    pending >>= bits / 8 * 8;
    bits %= 8;
  }
}

/// format::pack_positions; the values must be written afterwards.
template <std::size_t kValueBytes>
HWY_INLINE void write_positions(std::uint16_t* positions, const format::TopKLayout& layout, std::byte* out) {
  if (layout.bitmap || layout.kept * kValueBytes < 16) return format::pack_positions(positions, layout, out);
  for (std::size_t j = 0; j < 4; ++j) positions[layout.kept + j] = 0;
  write_numbers(positions, layout, out);
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
    for (std::size_t number = 0; number < call_.full; ++number) {
      const BlockPlace place = call_.place(number);
      next_ = number + 1 < call_.full ? place.first + call_.block : place.first;
      encode_block(place);
    }
    return call_.full * call_.block;
  }

 private:
  using Format = format::BlockTopK<Element>;

  /// Values of a block, and their largest magnitude.
  struct Gathered {
    const float* values;
    std::uint32_t largest;
  };

  const float* input(std::size_t first) const {
    return static_cast<const float*>(args_.terms.front().data) + first;
  }

  HWY_NOINLINE void encode_block(const BlockPlace& place) {
    const Gathered block = gather(place);
    if (block.largest >= format::kInfinityBits) return encode_nan(place);
    choose_marked(block.values, geometry_, block.largest, tracker_, scratch_);
    write_block(place, block);
  }

  /// The sum of the terms and the residual, with marks. One plain fp32 term alone is used where it lies.
  HWY_INLINE Gathered gather(const BlockPlace& place) {
    if (!single_) return gather_terms(place);
    if (keeps_early_) return added_ != nullptr ? gather_kept<true>(place) : gather_kept<false>(place);
    if (added_ != nullptr) return gather_terms(place);
    const float* const values = input(place.first);
    const float* const next = input(next_);
    const std::uint32_t largest = mark_values([&](std::size_t i) FERRULE_SIMD_LAMBDA {
      hwy::Prefetch(next + i);
      return hn::LoadU(Floats(), values + i);
    });
    return {values, largest};
  }

  /// The first encode of a step: value and residual are read, and what is the new residual unless it is sent
  /// is written, in one pass. The old residual is kept for a block that turns out not to be finite.
  template <bool kAdds>
  HWY_INLINE Gathered gather_kept(const BlockPlace& place) {
    const Floats d;
    const float* const values = input(place.first);
    const float* const next = input(next_);
    const float* const before = kAdds ? added_ + place.first : nullptr;
    const float* const next_before = kAdds ? added_ + next_ : nullptr;
    float* const after = args_.feedback.after + place.first;
    float* const saved = tile_;
    const std::uint32_t largest = mark_values([&](std::size_t i) FERRULE_SIMD_LAMBDA {
      FloatV all = hn::LoadU(d, values + i);
      hwy::Prefetch(next + i);
      if constexpr (kAdds) {
        const FloatV old = hn::LoadU(d, before + i);
        hwy::Prefetch(next_before + i);
        hn::Store(old, d, saved + i);
        all = hn::Add(all, old);
      }
      hn::StoreU(all, d, after + i);
      return all;
    });
    if (kAdds && largest >= format::kInfinityBits) std::copy_n(saved, call_.block, after);
    return {after, largest};
  }

  /// Any terms, in the tile.
  HWY_NOINLINE Gathered gather_terms(const BlockPlace& place) {
    const Floats d;
    float* const tile = tile_;
    const float* const before = added_ == nullptr ? nullptr : added_ + place.first;
    sum_.block(place, tile);
    const std::uint32_t largest = mark_values([&](std::size_t i) FERRULE_SIMD_LAMBDA {
      FloatV all = hn::Load(d, tile + i);
      if (before == nullptr) return all;
      all = hn::Add(all, hn::LoadU(d, before + i));
      hn::Store(all, d, tile + i);
      return all;
    });
    if (keeps_early_ && largest < format::kInfinityBits) {
      std::copy_n(tile, call_.block, args_.feedback.after + place.first);
    }
    return {tile, largest};
  }

  template <class Value>
  HWY_INLINE std::uint32_t mark_values(const Value& value) {
    return mark(call_.block, tracker_.bound(), scratch_.marks, value);
  }

  HWY_INLINE void write_block(const BlockPlace& place, const Gathered& block) {
    const std::size_t kept = call_.kept;
    const float* const chosen = scratch_.values;
    const auto scale = Element::scale_for(block.largest);
    std::byte* const payload = args_.out + place.payload;
    std::byte* const codes = payload + call_.layout.position_bytes;
    write_positions<Format::kValueBytes>(scratch_.positions, call_.layout, payload);
    if constexpr (Format::kScaled) format::store_u16(args_.out + place.header, scale.wire);
    for (std::size_t j = 0; j < kept; ++j) {
      Format::store_value(codes + Format::kValueBytes * j, Element::encode(chosen[j], scale, 0.0F));
    }
    if (args_.feedback.after == nullptr) return;
    const format::BlockAt at = call_.block_at(rounding_.divisor);
    const float unit = Format::read_scale(args_.out + place.header, at);
    for (std::size_t j = 0; j < kept; ++j) {
      held_[j] = Format::value_of(codes + Format::kValueBytes * j, unit, rounding_.divisor);
    }
    if (keeps_early_) return keep_chosen(args_.feedback.after + place.first);
    keep_all(place, block.values);
  }

  /// The errors of what was sent. They are finite: so are the values and what becomes of them.
  HWY_INLINE void keep_chosen(float* after) const {
    for (std::size_t j = 0; j < call_.kept; ++j) after[scratch_.positions[j]] = scratch_.values[j] - held_[j];
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
      const float error = scratch_.values[j] - held_[j];
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
  TopKTracker tracker_;
  TopKScratch scratch_;
  alignas(64) float tile_[format::kLargestTopKBlock];
  alignas(64) float held_[format::kMostKept];  ///< what was kept, as ranks will hold it
  alignas(64) float old_[format::kMostKept];   ///< the residuals of the same
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
