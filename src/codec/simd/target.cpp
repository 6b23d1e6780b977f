#include "codec/simd/target.hpp"

#include <hwy/targets.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdlib>

#include "base/log.hpp"

namespace ferrule::codec::simd {
namespace {

// Highway's own emulations are for machines without vectors; the scalar code serves those.
constexpr Target kEmulated = HWY_EMU128 | HWY_SCALAR;

Target best_target() { return available_targets().front(); }

Target initial_target() {
  const char* wanted = std::getenv("FERRULE_SIMD");
  if (wanted == nullptr || *wanted == '\0') return best_target();
  const Result<Target> parsed = parse_target(wanted);
  if (parsed.ok()) return *parsed;
  log::warn("{}; using {}", parsed.status().text(), target_name(best_target()));
  return best_target();
}

std::atomic<Target>& current() {
  static std::atomic<Target> target{initial_target()};
  return target;
}

}  // namespace

std::vector<Target> available_targets() {
  std::vector<Target> targets = hwy::SupportedAndGeneratedTargets();
  std::erase_if(targets, [](Target target) { return (target & kEmulated) != 0; });
  targets.push_back(kScalar);
  return targets;
}

std::string target_name(Target target) {
  std::string name = target == kScalar ? "scalar" : hwy::TargetName(target);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return name;
}

Result<Target> parse_target(std::string_view name) {
  std::string known;
  for (const Target target : available_targets()) {
    if (name == target_name(target)) return target;
    known += (known.empty() ? "" : ", ") + target_name(target);
  }
  return Status(ErrorCode::invalid_argument, "FERRULE_SIMD: this machine has no target '" +
                                                 std::string(name.substr(0, 64)) + "' (available: " + known +
                                                 ")");
}

Target active_target() { return current().load(std::memory_order_relaxed); }

std::string simd_target_name() { return target_name(active_target()); }

ScopedTarget::ScopedTarget(Target target) : previous_(current().exchange(target)) {}
ScopedTarget::~ScopedTarget() { current().store(previous_); }

}  // namespace ferrule::codec::simd
