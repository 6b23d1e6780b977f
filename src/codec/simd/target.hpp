// Which instruction set the codecs use: the best that the machine has, or what FERRULE_SIMD says.
//
// Results never depend on it: every kernel equals the scalar code bit for bit, and the tests run all of them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ferrule/status.hpp"

namespace ferrule::codec::simd {

/// One bit of Highway's target mask, or kScalar: no kernels, the plain C++ drivers.
using Target = std::int64_t;
inline constexpr Target kScalar = 0;

/// Targets that were compiled and that this machine can run, best first; kScalar is always the last.
std::vector<Target> available_targets();

/// "scalar", or Highway's name in lower case, e.g. "avx2".
std::string target_name(Target target);

/// The target of that name. The error lists what is available.
Result<Target> parse_target(std::string_view name);

/// The target that codecs use now: one relaxed atomic load. Reads FERRULE_SIMD at the first call; a name that
/// is not available is reported once as a warning and ignored.
Target active_target();

/// Name of active_target(), for reports.
std::string simd_target_name();

/// Makes active_target() return `target` (one of available_targets()) while it lives; for tests and benches.
/// It is for the whole process, so only one thread may hold these, and they must nest.
class ScopedTarget {
 public:
  explicit ScopedTarget(Target target);
  ~ScopedTarget();
  ScopedTarget(const ScopedTarget&) = delete;
  ScopedTarget& operator=(const ScopedTarget&) = delete;

 private:
  Target previous_;
};

}  // namespace ferrule::codec::simd
