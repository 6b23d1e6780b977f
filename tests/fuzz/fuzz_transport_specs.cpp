// Texts that configure decorators: links ("1gbit,1ms") and planted faults ("drop:nth=5").
#include <cmath>

#include "fuzz/input.hpp"
#include "fuzz/require.hpp"
#include "transport/decorators/fault_plan.hpp"
#include "transport/decorators/link.hpp"

namespace {

using ferrule::transport::FaultPlan;
using ferrule::transport::LinkModel;
using ferrule::transport::LinkSpec;

void check_link(std::string_view text) {
  const auto spec = LinkSpec::parse(text);
  if (!spec.ok()) return FERRULE_REQUIRE(spec.status().code() == ferrule::ErrorCode::invalid_argument);
  const auto again = LinkSpec::parse(spec->to_string());
  FERRULE_REQUIRE_OR(again.ok(), spec->to_string());
  FERRULE_REQUIRE_OR(again->latency == spec->latency, spec->to_string());
  const double drift = std::fabs(again->bits_per_second - spec->bits_per_second);
  FERRULE_REQUIRE_OR(drift <= 1e-15 * spec->bits_per_second, spec->to_string());
  LinkModel model(*spec);
  FERRULE_REQUIRE(model.transfer(std::size_t{1} << 31).count() >= 0);
  const auto start = LinkModel::TimePoint(std::chrono::hours(1));
  FERRULE_REQUIRE(model.leave(start, 64512) >= start);
  FERRULE_REQUIRE(model.receive(start, 64512) >= start + spec->latency);
}

void check_faults(std::string_view text) {
  const auto plan = FaultPlan::parse(text);
  if (!plan.ok()) return FERRULE_REQUIRE(plan.status().code() == ferrule::ErrorCode::invalid_argument);
  FERRULE_REQUIRE(!plan->faults.empty());
  for (const auto& fault : plan->faults) {
    FERRULE_REQUIRE(fault.nth > 0 && fault.rank >= -1 && fault.bytes > 0);
    FERRULE_REQUIRE(fault.delay.count() >= 0 && fault.delay <= std::chrono::hours(1));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  ferrule::fuzz::Input input(data, bytes);
  const bool link = input.flag();
  const std::string_view text = input.rest();
  link ? check_link(text) : check_faults(text);
  return 0;
}
