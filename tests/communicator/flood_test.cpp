// A peer that floods a rank with control messages: memory stays bounded, and the collective under way is not
// harmed.
#include <gtest/gtest.h>

#include <memory>

#include "communicator/agreement.hpp"
#include "communicator/control.hpp"
#include "support/silent_transport.hpp"

namespace ferrule::communicator {
namespace {

constexpr std::uint32_t kFlood = 20'000;

transport::MessageHeader failed(std::uint32_t sequence) {
  transport::MessageHeader header;
  header.kind = transport::MessageKind::control;
  header.control_type = static_cast<std::uint8_t>(ControlType::failed);
  header.source = 1;
  header.sequence = sequence;
  header.chunk = static_cast<std::uint32_t>(ErrorCode::mismatch);  // one that the communicator survives
  return header;
}

TEST(Flood, OfFailuresIsBoundedAndTheOneThatCountsIsHeard) {
  ::testing::internal::CaptureStderr();  // a warning for each that is dropped
  testing::SilentTransport transport(2);
  transport::Membership membership;
  membership.peers.resize(2);
  std::unique_ptr<Agreement> agreement;
  ControlPlane control(transport, 1, [&](const ControlMessage& message) { agreement->take(message); });
  agreement = std::make_unique<Agreement>(control, membership, 0U);
  for (std::uint32_t sequence = 1; sequence <= kFlood; ++sequence) {
    transport.arrive(failed(sequence), std::string(1000, 'x'));
  }
  transport.arrive(failed(0), "the one under way");
  std::uint32_t kept = 0;
  for (std::uint32_t sequence = 1; sequence <= kFlood; ++sequence) {
    kept += agreement->failure_of(sequence).has_value() ? 1 : 0;
  }
  ::testing::internal::GetCapturedStderr();
  EXPECT_LE(kept, 5000u);
  ASSERT_TRUE(agreement->failure_of(0).has_value());
  EXPECT_EQ(agreement->failure_of(0)->text(), "the one under way");
}

// An error without a text would tell its reader nothing.
TEST(Failure, WithoutAReasonGetsOne) {
  testing::SilentTransport transport(2);
  transport::Membership membership;
  membership.peers.resize(2);
  std::unique_ptr<Agreement> agreement;
  ControlPlane control(transport, 1, [&](const ControlMessage& message) { agreement->take(message); });
  agreement = std::make_unique<Agreement>(control, membership, 0U);
  transport.arrive(failed(0), "");
  ASSERT_TRUE(agreement->failure_of(0).has_value());
  EXPECT_NE(agreement->failure_of(0)->text().find("rank 1"), std::string::npos);
}

}  // namespace
}  // namespace ferrule::communicator
