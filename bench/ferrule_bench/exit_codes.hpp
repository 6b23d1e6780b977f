// Exit codes of ferrule-bench; scripts rely on them.
#pragma once

namespace ferrule::bench {

inline constexpr int kExitOk = 0;
inline constexpr int kExitWrong = 1;   ///< elements out of bounds, or ranks that differ
inline constexpr int kExitUsage = 2;   ///< bad arguments
inline constexpr int kExitFailed = 3;  ///< a rank failed or died
inline constexpr int kExitPlot = 4;    ///< results are fine, the picture could not be drawn

}  // namespace ferrule::bench
