// Decorators are transports too: the whole suite again, through a fast link and through a plan whose faults
// never come.
#include "transport/conformance.hpp"
#include "transport/decorators/fault.hpp"
#include "transport/decorators/throttle.hpp"

namespace ferrule::transport::testing {
namespace {

using Wrap = std::function<std::unique_ptr<Transport>(std::unique_ptr<Transport>)>;

Connect decorated(const Wrap& wrap) {
  return [wrap](const Membership& membership, const Exchange& exchange,
                Deadline deadline) -> Result<std::unique_ptr<Transport>> {
    auto inner = find_transport("loopback")->connect(membership, exchange, deadline);
    if (!inner.ok()) return inner.status();
    return wrap(std::move(inner).value());
  };
}

std::unique_ptr<Transport> throttled(std::unique_ptr<Transport> inner) {
  return throttle(std::move(inner), LinkSpec::parse("10gbit,200us").value());
}

std::unique_ptr<Transport> sound(std::unique_ptr<Transport> inner) {
  return inject(std::move(inner), FaultPlan::parse("drop:nth=1000000;die:nth=1,rank=99").value());
}

std::unique_ptr<Transport> both(std::unique_ptr<Transport> inner) {
  return sound(throttled(std::move(inner)));
}

INSTANTIATE_TEST_SUITE_P(Decorated, TransportConformance,
                         ::testing::Values(TransportCase{"throttle", decorated(throttled),
                                                         "loopback+throttle"},
                                           TransportCase{"fault", decorated(sound), "loopback+fault"},
                                           TransportCase{"both", decorated(both), "loopback+throttle+fault"}),
                         case_name);

}  // namespace
}  // namespace ferrule::transport::testing
