// Finds the function of one target in a table made by HWY_EXPORT. For kernel files only: the table's shape is
// that of the including file's HWY_TARGETS.
//
// Highway's own HWY_DYNAMIC_DISPATCH reads a variable that is shared by every user of libhwy in the process;
// Ferrule chooses for itself, so that forcing a target here leaves others alone.
#pragma once

#include <hwy/targets.h>

#include <cstddef>

#include "codec/simd/target.hpp"

namespace ferrule::codec::simd {

/// Index of `target` (not kScalar) in a dispatch table.
inline std::size_t dispatch_index([[maybe_unused]] Target target) {
#if (HWY_TARGETS & (HWY_TARGETS - 1)) == 0
  return 0;
#else
  hwy::ChosenTarget chosen;
  chosen.Update(target);
  return chosen.GetIndex();
#endif
}

}  // namespace ferrule::codec::simd

/// Calls `function` (a HWY_EXPORTed one) of that target.
#define FERRULE_SIMD_CALL(function, target) \
  ((*HWY_DISPATCH_TABLE(function)[::ferrule::codec::simd::dispatch_index(target)]))

/// Highway compiles every file for a target without vectors too. It is never chosen (kScalar is), and kernel
/// files leave it out: HWY_TARGET is known only after <hwy/highway.h>.
#define FERRULE_SIMD_HAS_VECTORS (HWY_TARGET != HWY_SCALAR && HWY_TARGET != HWY_EMU128)
