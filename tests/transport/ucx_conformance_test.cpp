// The conformance suite over UCX, ranks as threads. FERRULE_UCX_TLS chooses the path; ctest runs it for each.
#include "transport/conformance.hpp"

namespace ferrule::transport::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Ucx, TransportConformance,
                         ::testing::Values(TransportCase{"ucx", find_transport("ucx")->connect, "ucx"}),
                         case_name);

}  // namespace
}  // namespace ferrule::transport::testing
