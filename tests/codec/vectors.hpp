// The inputs that every codec must take, and which codecs those are. Shared by the conformance tests, the
// tests of the vector code and anything else that compares two implementations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrule/types.hpp"

namespace ferrule::codec::testing {

enum class Values {
  normal,
  zeros,
  negative_zeros,
  one_hot,
  all_negative,
  constant,
  tiny,       ///< about 1e-38 (f16: 1e-5), the smallest normal values
  huge,       ///< up to the largest value, 3.4e38 (f16: 65504)
  denormals,  ///< 1e-41 (f16: 1e-7)
  mixed,      ///< magnitudes from 1e-30 to 1e30 (f16: 1e-4 to 1e4) side by side
  with_nan,
  with_infinity,
  with_minus_infinity,
};
inline constexpr Values kAllValues[] = {Values::normal,
                                        Values::zeros,
                                        Values::negative_zeros,
                                        Values::one_hot,
                                        Values::all_negative,
                                        Values::constant,
                                        Values::tiny,
                                        Values::huge,
                                        Values::denormals,
                                        Values::mixed,
                                        Values::with_nan,
                                        Values::with_infinity,
                                        Values::with_minus_infinity};

std::string_view values_name(Values values);
bool holds_non_finite(Values values);

/// `count` values of that kind; the same for the same seed on every machine. They fit into `dtype`, but may
/// need rounding to it.
std::vector<float> make_values(Values values, std::size_t count, std::uint64_t seed,
                               DType dtype = DType::f32);

/// Deterministic 64 random bits.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t index);
/// Uniform in [-1, 1).
float random_unit(std::uint64_t seed, std::uint64_t index);

/// Every registered codec with its defaults, and the variants that matter.
std::vector<std::string> specs_under_test();

/// 0, 1, block - 1, block, block + 1 and a large prime.
std::vector<std::size_t> lengths_for(std::size_t block);

inline constexpr DType kFloatTypes[] = {DType::f32, DType::f16, DType::bf16};

}  // namespace ferrule::codec::testing
