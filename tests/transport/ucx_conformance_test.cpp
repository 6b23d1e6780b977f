// The conformance suite over UCX, ranks as threads. FERRULE_UCX_TLS chooses the path; ctest runs it for each.
#include "transport/conformance.hpp"

namespace ferrule::transport::testing {
namespace {

/// The bodies of the suite start on connected ranks: one that is still connecting would already take, and
/// count, the first messages of those that have started.
Result<std::unique_ptr<Transport>> connect_and_meet(const Membership& membership, const Exchange& exchange,
                                                    Deadline deadline) {
  auto made = find_transport("ucx")->connect(membership, exchange, deadline);
  const auto met = exchange("connected", "");
  if (made.ok() && !met.ok()) return met.status();
  return made;
}

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance,
                         ::testing::Values(TransportCase{"ucx", connect_and_meet, "ucx"}), case_name);

}  // namespace
}  // namespace ferrule::transport::testing
