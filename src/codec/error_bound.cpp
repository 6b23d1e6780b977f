#include "codec/error_bound.hpp"

#include <algorithm>
#include <cmath>

#include "codec/elements.hpp"

namespace ferrule::codec {
namespace {

// Half a unit in the last place, relative: the rounding of one result or one addition.
double rounding(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return std::ldexp(1.0, -53);
    case DType::f32:
      return std::ldexp(1.0, -24);
    case DType::f16:
      return std::ldexp(1.0, -11);
    case DType::bf16:
      return std::ldexp(1.0, -8);
    default:
      return 0.0;
  }
}

// Below this a result of the dtype loses digits: an absolute error of that size.
double underflow(DType dtype) {
  switch (dtype) {
    case DType::f16:
      return std::ldexp(1.0, -25);
    case DType::f32:
    case DType::bf16:
      return std::ldexp(1.0, -133);
    default:
      return 0.0;
  }
}

}  // namespace

double encode_error_bound(const Codec& codec, const void* elements, std::size_t count, DType dtype) {
  if (codec.exact()) return 0.0;
  constexpr std::size_t kTile = 1024;
  float values[kTile];
  double largest = 0.0;
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const std::size_t some = std::min(kTile, count - begin);
    load_elements(elements, dtype, begin, some, values);
    for (std::size_t i = 0; i < some; ++i) {
      if (std::isfinite(values[i])) largest = std::max<double>(largest, std::fabs(values[i]));
    }
  }
  return codec.relative_bound() * largest + codec.absolute_bound() + largest * rounding(dtype) +
         underflow(dtype);
}

double sum_error_bound(std::span<const CodecUse> uses, const SumBound& sum, double magnitude) {
  double grown = magnitude;  // what the largest partial sum may have become
  double error = 0.0;
  bool rounds_between = uses.size() > 1;
  for (const CodecUse& use : uses) {
    rounds_between = rounds_between || use.codec->exact();
    for (std::uint32_t i = 0; i < use.encodes; ++i) {
      const double step = use.codec->relative_bound() * grown + sum.world * use.codec->absolute_bound();
      error += step;
      grown += step;
    }
  }
  const double accumulate = rounding(sum.dtype == DType::f64 ? DType::f64 : DType::f32);
  error += grown * accumulate * (2.0 * sum.world + 2.0 * sum.encodes + 2.0);
  // Raw partial sums of a narrow dtype are rounded to it at every step, and sums between two codecs.
  const double roundings = rounds_between ? sum.encodes + 1.0 : 1.0;
  error += grown * rounding(sum.dtype) * roundings + underflow(sum.dtype) * (roundings + sum.world);
  return sum.op == ReduceOp::avg ? error / sum.world + underflow(sum.dtype) : error;
}

double sum_error_bound(const Codec& codec, const SumBound& sum, double magnitude) {
  const CodecUse use{&codec, sum.encodes};
  return sum_error_bound({&use, 1}, sum, magnitude);
}

}  // namespace ferrule::codec
