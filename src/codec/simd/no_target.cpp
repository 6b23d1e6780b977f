// For builds without Highway: there is no target but the scalar one.
#include "codec/raw_reduce.hpp"
#include "codec/simd/target.hpp"

namespace ferrule::codec {
namespace simd {

std::vector<Target> available_targets() { return {kScalar}; }

std::string target_name(Target /*target*/) { return "scalar"; }

Result<Target> parse_target(std::string_view name) {
  if (name == "scalar") return kScalar;
  return Status(ErrorCode::invalid_argument, "FERRULE_SIMD: this build has no target '" +
                                                 std::string(name.substr(0, 64)) + "' (available: scalar)");
}

Target active_target() { return kScalar; }

std::string simd_target_name() { return "scalar"; }

ScopedTarget::ScopedTarget(Target /*target*/) : previous_(kScalar) {}
ScopedTarget::~ScopedTarget() { static_cast<void>(previous_); }

}  // namespace simd

void raw_reduce(const RawReduce& reduce) { raw_reduce_scalar(reduce); }

}  // namespace ferrule::codec
