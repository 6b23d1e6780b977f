// Names of element types and operations as nccl-tests writes them on its command line and in its table.
#pragma once

#include <string_view>
#include <vector>

#include "ferrule/status.hpp"
#include "ferrule/types.hpp"

namespace ferrule::bench {

/// "float", "double", "half", "bfloat16", "int32", "int64", "uint8".
std::string_view nccl_dtype_name(DType dtype);

/// One element type, by nccl-tests' name or Ferrule's ("f32"), or each one for "all".
Result<std::vector<DType>> parse_dtypes(std::string_view text);
/// One operation ("sum", "avg", "min", "max", "prod"), or each one for "all".
Result<std::vector<ReduceOp>> parse_ops(std::string_view text);

}  // namespace ferrule::bench
