// Where the parameters of the cost model come from (FERRULE_TUNING), and their text form.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "ferrule/status.hpp"
#include "plan/cost_model.hpp"

namespace ferrule::communicator {

struct Tuning {
  plan::LinkModel link;
  std::map<std::string, plan::CodecCost, std::less<>> codecs;  ///< by canonical text

  /// Lines "link <latency us> <us a message> <ns a byte>" and "codec <text> <encode ns> <decode ns>", the
  /// latter for an element; '#' begins a comment. The error names the line.
  static Result<Tuning> parse(std::string_view text);
  static Result<Tuning> read(const std::string& path);
  std::string to_string() const;
};

/// What FERRULE_TUNING says.
struct TuningSource {
  enum class Kind : std::uint8_t { measure, builtin, file };
  Kind kind = Kind::builtin;
  std::string path;

  /// "measure", "builtin" or "file:PATH".
  static Result<TuningSource> parse(std::string_view text);
};

/// Of a codec that was neither measured nor given: of int4 with residual on one core, about.
inline constexpr plan::CodecCost kBuiltinCodecCost{0.75e-9, 0.33e-9};

/// "2.1 us latency, 0.4 us a message, 4.1 GB/s out of each rank".
std::string describe(const plan::LinkModel& link);

}  // namespace ferrule::communicator
