// Plain elements in and out of fp32 values, for the dtypes that lossy codecs accept.
#pragma once

#include <cstddef>

#include "ferrule/types.hpp"

namespace ferrule::codec {

/// x[i] = element first + i of `data`; exact.
void load_elements(const void* data, DType dtype, std::size_t first, std::size_t count, float* x);
/// Element first + i of `data` = x[i], rounded to nearest even; every NaN becomes the canonical one.
void store_elements(const float* x, DType dtype, std::size_t first, std::size_t count, void* data);
/// x[i] = what an element of this dtype keeps of x[i].
void round_to_dtype(DType dtype, std::size_t count, float* x);

}  // namespace ferrule::codec
