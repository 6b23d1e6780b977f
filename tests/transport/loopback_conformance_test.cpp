#include "transport/conformance.hpp"

namespace ferrule::transport::testing {
namespace {

INSTANTIATE_TEST_SUITE_P(Loopback, TransportConformance,
                         ::testing::Values(TransportCase{"loopback", find_transport("loopback")->connect,
                                                         "loopback"}),
                         case_name);

}  // namespace
}  // namespace ferrule::transport::testing
