#include "bench/ferrule_bench/names.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iterator>
#include <string>

namespace ferrule::bench {
namespace {

constexpr std::string_view kNcclNames[] = {"float", "double", "half", "bfloat16", "int32", "int64", "uint8"};
static_assert(std::size(kNcclNames) == kDTypeCount);

/// What people also type for the same type.
constexpr struct {
  std::string_view name;
  DType dtype;
} kAliases[] = {{"float32", DType::f32}, {"float64", DType::f64}, {"float16", DType::f16},
                {"fp16", DType::f16},    {"int", DType::i32},     {"bf16", DType::bf16}};

}  // namespace

std::string_view nccl_dtype_name(DType dtype) {
  return is_valid(dtype) ? kNcclNames[static_cast<int>(dtype)] : std::string_view("invalid");
}

Result<std::vector<DType>> parse_dtypes(std::string_view text) {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (text == nccl_dtype_name(dtype) || text == dtype_name(dtype)) return std::vector{dtype};
    all.push_back(dtype);
  }
  for (const auto& alias : kAliases) {
    if (text == alias.name) return std::vector{alias.dtype};
  }
  if (text == "all") return all;
  return Status(ErrorCode::invalid_argument,
                fmt::format("no datatype '{}' (-d); there are: {}, all", text, fmt::join(kNcclNames, ", ")));
}

Result<std::vector<ReduceOp>> parse_ops(std::string_view text) {
  std::vector<ReduceOp> all;
  std::vector<std::string_view> names;
  for (int i = 0; i < kReduceOpCount; ++i) {
    const auto op = static_cast<ReduceOp>(i);
    if (text == op_name(op)) return std::vector{op};
    all.push_back(op);
    names.push_back(op_name(op));
  }
  if (text == "all") return all;
  return Status(ErrorCode::invalid_argument,
                fmt::format("no operation '{}' (-o); there are: {}, all", text, fmt::join(names, ", ")));
}

}  // namespace ferrule::bench
