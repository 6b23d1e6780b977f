// The right result in fp64, how far from it a result may be, and how far it is. Works on a piece of the
// tensor at a time, so that checking needs little memory whatever the size.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "bench/ferrule_bench/data.hpp"
#include "ferrule/status.hpp"

namespace ferrule::bench {

/// Right values of elements [first, first + values.size()).
struct Expected {
  std::uint64_t first = 0;
  std::vector<double> values;
  /// Per element: sum over ranks of |contribution|, the unit of summation errors.
  std::vector<double> absolute_sums;
  /// Per element: sum over ranks of the largest |contribution| in the element's block, the unit of lossy
  /// errors.
  std::vector<double> block_magnitudes;
};

/// `block`: elements of a codec block, at least 1; `first` must be a multiple of it.
Expected expected_piece(const DataSpec& spec, std::size_t block, std::uint64_t first, std::size_t count);

/// Largest error that rounding alone may make when contributions are added in any order, in at least fp32 but
/// with partial sums stored in the tensor's type (as a ring does). 0 where every order gives the same bits.
std::vector<double> rounding_bounds(const DataSpec& spec, const Expected& expected);

/// Errors of a result so far. Combines over pieces, places and ranks.
struct ErrorTally {
  std::uint64_t wrong = 0;   ///< elements outside their bound; NaN always is
  double error_squares = 0;  ///< sum of squared errors; NaN or Inf once one is
  double value_squares = 0;  ///< sum of squared right values
  double max_error = 0;

  void add(std::span<const double> result, const Expected& expected, std::span<const double> bounds);
  void merge(const ErrorTally& other);
  /// L2 norm of the error over L2 norm of the right result; 0 when there is no error.
  double relative_error() const;
};

}  // namespace ferrule::bench
