// The identity codec's reduction with Highway: N terms are read once, combined in registers, written once.
#include "codec/raw_reduce.hpp"
#include "codec/simd/dispatch.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "codec/simd/raw_kernels.cpp"
#include <hwy/foreach_target.h>
// Highway wants this order.
#include <hwy/highway.h>

#if FERRULE_SIMD_HAS_VECTORS
#include "codec/simd/half-inl.hpp"
#endif

HWY_BEFORE_NAMESPACE();
namespace ferrule::codec::simd {
namespace HWY_NAMESPACE {

#if FERRULE_SIMD_HAS_VECTORS

/// f32, f64, integers as they lie in memory.
template <class T>
struct PlainLanes {
  using D = hn::ScalableTag<T>;
  using V = hn::VFromD<D>;
  static constexpr std::size_t kBytes = sizeof(T);
  static HWY_INLINE V load(const void* data) { return load_bytes(D(), data); }
  static HWY_INLINE void store(V value, void* data) { store_bytes(value, D(), data); }
};

struct Bf16Lanes {
  using D = hn::ScalableTag<float>;
  using V = hn::VFromD<D>;
  static constexpr std::size_t kBytes = 2;
  static HWY_INLINE V load(const void* data) { return widen_bf16(D(), load_bytes(HalfTag<D>(), data)); }
  static HWY_INLINE void store(V value, void* data) {
    store_bytes(narrow_bf16(D(), value), HalfTag<D>(), data);
  }
};

struct F16Lanes {
  using D = hn::ScalableTag<float>;
  using V = hn::VFromD<D>;
  static constexpr std::size_t kBytes = 2;
  static HWY_INLINE V load(const void* data) { return widen_f16(D(), load_bytes(HalfTag<D>(), data)); }
  static HWY_INLINE void store(V value, void* data) {
    store_bytes(narrow_f16(D(), value), HalfTag<D>(), data);
  }
};

template <class D>
inline constexpr bool kIsFloat = hwy::IsFloat<hn::TFromD<D>>();

struct AddLanes {
  template <class D, class V>
  static HWY_INLINE V combine(D /*d*/, V a, V b) {
    return hn::Add(a, b);
  }
};

struct MultiplyLanes {
  template <class D, class V>
  static HWY_INLINE V combine(D /*d*/, V a, V b) {
    return hn::Mul(a, b);
  }
};

/// As raw::least and raw::greatest: processors' own float minimum depends on the order of its operands.
struct LeastLanes {
  template <class D, class V>
  static HWY_INLINE V combine(D /*d*/, V a, V b) {
    if constexpr (kIsFloat<D>) {
      const V ordered = hn::IfThenElse(hn::Lt(b, a), b, hn::IfThenElse(hn::Eq(a, b), hn::Or(a, b), a));
      return hn::IfThenElse(hn::IsNaN(b), b, ordered);
    } else {
      return hn::Min(a, b);
    }
  }
};

struct GreatestLanes {
  template <class D, class V>
  static HWY_INLINE V combine(D /*d*/, V a, V b) {
    if constexpr (kIsFloat<D>) {
      const V ordered = hn::IfThenElse(hn::Lt(a, b), b, hn::IfThenElse(hn::Eq(a, b), hn::And(a, b), a));
      return hn::IfThenElse(hn::IsNaN(b), b, ordered);
    } else {
      return hn::Max(a, b);
    }
  }
};

/// As raw::finish; integers come here only without a divisor.
template <class D, class V>
HWY_INLINE V finish(D d, V value, std::uint32_t divisor) {
  if constexpr (kIsFloat<D>) {
    using T = hn::TFromD<D>;
    if (divisor != 1) value = hn::Div(value, hn::Set(d, static_cast<T>(divisor)));
    const V nan = hn::Set(d, std::numeric_limits<T>::quiet_NaN());
    return hn::IfThenElse(hn::IsNaN(value), nan, value);
  } else {
    return value;
  }
}

/// One vector at element `index`.
template <class Lanes, class Combine>
HWY_INLINE void reduce_one(const RawReduce& reduce, std::size_t index) {
  const typename Lanes::D d;
  const std::size_t offset = index * Lanes::kBytes;
  const auto at = [offset](const Term& term) { return static_cast<const std::byte*>(term.data) + offset; };
  auto value = Lanes::load(at(reduce.terms.front()));
  for (const Term& term : reduce.terms.subspan(1)) value = Combine::combine(d, value, Lanes::load(at(term)));
  Lanes::store(finish(d, value, reduce.divisor), static_cast<std::byte*>(reduce.out) + offset);
}

/// Four vectors at element `index`: four independent chains hide the latency of the combination.
template <class Lanes, class Combine>
HWY_INLINE void reduce_four(const RawReduce& reduce, std::size_t index) {
  const typename Lanes::D d;
  const std::size_t offset = index * Lanes::kBytes;
  const std::size_t step = hn::Lanes(d) * Lanes::kBytes;
  const std::byte* data = static_cast<const std::byte*>(reduce.terms.front().data) + offset;
  auto v0 = Lanes::load(data);
  auto v1 = Lanes::load(data + step);
  auto v2 = Lanes::load(data + 2 * step);
  auto v3 = Lanes::load(data + 3 * step);
  for (const Term& term : reduce.terms.subspan(1)) {
    data = static_cast<const std::byte*>(term.data) + offset;
    v0 = Combine::combine(d, v0, Lanes::load(data));
    v1 = Combine::combine(d, v1, Lanes::load(data + step));
    v2 = Combine::combine(d, v2, Lanes::load(data + 2 * step));
    v3 = Combine::combine(d, v3, Lanes::load(data + 3 * step));
  }
  std::byte* out = static_cast<std::byte*>(reduce.out) + offset;
  Lanes::store(finish(d, v0, reduce.divisor), out);
  Lanes::store(finish(d, v1, reduce.divisor), out + step);
  Lanes::store(finish(d, v2, reduce.divisor), out + 2 * step);
  Lanes::store(finish(d, v3, reduce.divisor), out + 3 * step);
}

template <class Lanes, class Combine>
void reduce_lanes(const RawReduce& reduce) {
  const std::size_t lanes = hn::Lanes(typename Lanes::D());
  RawReduce rest = reduce;
  for (; rest.first + 4 * lanes <= rest.count; rest.first += 4 * lanes) {
    reduce_four<Lanes, Combine>(reduce, rest.first);
  }
  for (; rest.first + lanes <= rest.count; rest.first += lanes)
    reduce_one<Lanes, Combine>(reduce, rest.first);
  raw_reduce_scalar(rest);
}

template <class Lanes>
void reduce_floats(const RawReduce& reduce) {
  switch (reduce.op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return reduce_lanes<Lanes, AddLanes>(reduce);
    case ReduceOp::min:
      return reduce_lanes<Lanes, LeastLanes>(reduce);
    case ReduceOp::max:
      return reduce_lanes<Lanes, GreatestLanes>(reduce);
    case ReduceOp::prod:
      return reduce_lanes<Lanes, MultiplyLanes>(reduce);
  }
}

/// Sums as unsigned, which wraps; comparisons as T.
template <class T>
void reduce_integers(const RawReduce& reduce) {
  const bool is_product = reduce.op == ReduceOp::prod;
  // No vector division, and no product of 8 or 64 bits, is worth a kernel.
  if (reduce.divisor != 1 || (is_product && sizeof(T) != 4)) return raw_reduce_scalar(reduce);
  switch (reduce.op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return reduce_lanes<PlainLanes<hwy::MakeUnsigned<T>>, AddLanes>(reduce);
    case ReduceOp::min:
      return reduce_lanes<PlainLanes<T>, LeastLanes>(reduce);
    case ReduceOp::max:
      return reduce_lanes<PlainLanes<T>, GreatestLanes>(reduce);
    case ReduceOp::prod:
      return reduce_lanes<PlainLanes<std::uint32_t>, MultiplyLanes>(reduce);
  }
}

void reduce_all(const RawReduce& reduce) {
  switch (reduce.dtype) {
    case DType::f32:
      return reduce_floats<PlainLanes<float>>(reduce);
    case DType::f64:
      return reduce_floats<PlainLanes<double>>(reduce);
    case DType::f16:
      return reduce_floats<F16Lanes>(reduce);
    case DType::bf16:
      return reduce_floats<Bf16Lanes>(reduce);
    case DType::i32:
      return reduce_integers<std::int32_t>(reduce);
    case DType::i64:
      return reduce_integers<std::int64_t>(reduce);
    case DType::u8:
      return reduce_integers<std::uint8_t>(reduce);
  }
}

#else

void reduce_all(const RawReduce& reduce) { raw_reduce_scalar(reduce); }

#endif

}  // namespace HWY_NAMESPACE
}  // namespace ferrule::codec::simd
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace ferrule::codec {
namespace simd {
HWY_EXPORT(reduce_all);
}  // namespace simd

void raw_reduce(const RawReduce& reduce) {
  const simd::Target target = simd::active_target();
  if (target == simd::kScalar) return raw_reduce_scalar(reduce);
  using namespace simd;  // NOLINT: the table's name is a macro's
  FERRULE_SIMD_CALL(reduce_all, target)(reduce);
}

}  // namespace ferrule::codec
#endif
