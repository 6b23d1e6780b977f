// Element types and reduction operations, as every layer names them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ferrule {

/// Element type of a tensor. The numbers are those of ferruleDataType_t.
enum class DType : int { f32 = 0, f64 = 1, f16 = 2, bf16 = 3, i32 = 4, i64 = 5, u8 = 6 };
inline constexpr int kDTypeCount = 7;

/// How contributions are combined. avg is a sum divided once, at the end, by the number of ranks.
enum class ReduceOp : int { sum = 0, avg = 1, min = 2, max = 3, prod = 4 };
inline constexpr int kReduceOpCount = 5;

constexpr bool is_valid(DType dtype) { return static_cast<unsigned>(dtype) < kDTypeCount; }
constexpr bool is_valid(ReduceOp op) { return static_cast<unsigned>(op) < kReduceOpCount; }

/// Bytes of one element.
constexpr std::size_t element_bytes(DType dtype) {
  constexpr std::size_t kBytes[] = {4, 8, 2, 2, 4, 8, 1};
  return kBytes[static_cast<int>(dtype)];
}

/// f32, f16 and bf16: the element types that a lossy codec accepts. (f64 stays exact.)
constexpr bool is_compressible(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

constexpr std::string_view dtype_name(DType dtype) {
  constexpr std::string_view kNames[] = {"f32", "f64", "f16", "bf16", "i32", "i64", "u8"};
  return is_valid(dtype) ? kNames[static_cast<int>(dtype)] : std::string_view("invalid");
}

constexpr std::string_view op_name(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "avg", "min", "max", "prod"};
  return is_valid(op) ? kNames[static_cast<int>(op)] : std::string_view("invalid");
}

}  // namespace ferrule
