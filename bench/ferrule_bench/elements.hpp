// Elements of every type as doubles and back. Exact for all but int64 beyond 2^53, which the benchmark never
// makes.
#pragma once

#include <cstdint>
#include <span>

#include "ferrule/types.hpp"

namespace ferrule::bench {

/// Reads `out.size()` elements from `source`.
void load_elements(const void* source, DType dtype, std::span<double> out);
/// Writes `values` as `dtype`: floats rounded to nearest even, integers cut.
void store_elements(std::span<const double> values, DType dtype, void* target);
/// `value` as it would come back after store and load.
double rounded_to(DType dtype, double value);
/// Distance from 1 to the next number, halved: the relative error of one rounding. 0 for integers.
double unit_roundoff(DType dtype);

}  // namespace ferrule::bench
