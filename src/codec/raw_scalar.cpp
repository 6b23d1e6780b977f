// The identity codec's arithmetic in plain C++, one element at a time.
#include <cstring>

#include "codec/format/float16.hpp"
#include "codec/raw_element.hpp"
#include "codec/raw_reduce.hpp"

namespace ferrule::codec {
namespace {

template <class Element>
typename Element::Value load(const void* data, std::size_t index) {
  typename Element::Storage stored;
  std::memcpy(&stored, static_cast<const std::byte*>(data) + index * sizeof(stored), sizeof(stored));
  return Element::widen(stored);
}

template <class Element>
void store(void* data, std::size_t index, typename Element::Value value) {
  const typename Element::Storage stored = Element::narrow(value);
  std::memcpy(static_cast<std::byte*>(data) + index * sizeof(stored), &stored, sizeof(stored));
}

template <class Element, class Combine>
void reduce_with(const RawReduce& reduce, const Combine& combine) {
  for (std::size_t i = reduce.first; i < reduce.count; ++i) {
    auto value = load<Element>(reduce.terms.front().data, i);
    for (const Term& term : reduce.terms.subspan(1)) value = combine(value, load<Element>(term.data, i));
    store<Element>(reduce.out, i, raw::finish(value, reduce.divisor));
  }
}

template <class Element>
void reduce_elements(const RawReduce& reduce) {
  using Value = typename Element::Value;
  switch (reduce.op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return reduce_with<Element>(reduce, raw::add<Value>);
    case ReduceOp::min:
      return reduce_with<Element>(reduce, raw::least<Value>);
    case ReduceOp::max:
      return reduce_with<Element>(reduce, raw::greatest<Value>);
    case ReduceOp::prod:
      return reduce_with<Element>(reduce, raw::multiply<Value>);
  }
}

}  // namespace

void raw_reduce_scalar(const RawReduce& reduce) {
  switch (reduce.dtype) {
    case DType::f32:
      return reduce_elements<raw::PlainElement<float>>(reduce);
    case DType::f64:
      return reduce_elements<raw::PlainElement<double>>(reduce);
    case DType::f16:
      return reduce_elements<raw::HalfElement<format::f16_to_f32, format::f32_to_f16>>(reduce);
    case DType::bf16:
      return reduce_elements<raw::HalfElement<format::bf16_to_f32, format::f32_to_bf16>>(reduce);
    case DType::i32:
      return reduce_elements<raw::PlainElement<std::int32_t>>(reduce);
    case DType::i64:
      return reduce_elements<raw::PlainElement<std::int64_t>>(reduce);
    case DType::u8:
      return reduce_elements<raw::PlainElement<std::uint8_t>>(reduce);
  }
}

}  // namespace ferrule::codec
