// What a rank tells of itself through the rendezvous: it comes back as it was, or is refused.
#include <gtest/gtest.h>

#include <cstddef>

#include "transport/ucx/peer_address.hpp"

namespace ferrule::transport::ucx {
namespace {

constexpr std::size_t kFixedBytes = 56;
constexpr std::size_t kVigilPortAt = 44;

std::string good_bytes() {
  PeerAddress address;
  address.ucx_major = 1;
  address.ucx_minor = 13;
  address.process = {4711, 99, 42};
  address.death_sign = 7;
  address.vigil_port = 65535;
  address.worker = "worker";
  return address.encode();
}

TEST(UcxPeerAddress, ComesBackAsItWas) {
  const auto address = PeerAddress::decode(good_bytes());
  ASSERT_TRUE(address.ok()) << address.status().text();
  EXPECT_EQ(address->process.pid, 4711);
  EXPECT_EQ(address->vigil_port, 65535);
  EXPECT_EQ(address->encode(), good_bytes());
}

TEST(UcxPeerAddress, RefusesAPortThatIsNone) {
  std::string bytes = good_bytes();
  bytes[kVigilPortAt + 2] = 1;  // 65535 becomes 131071, of which 16 bits would be a port again
  const auto address = PeerAddress::decode(bytes);
  EXPECT_EQ(address.status().code(), ErrorCode::corrupt);
  EXPECT_NE(address.status().text().find("131071"), std::string::npos) << address.status().text();
}

TEST(UcxPeerAddress, RefusesEveryCut) {
  const std::string good = good_bytes();
  ASSERT_EQ(good.size(), kFixedBytes + 6);
  for (std::size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_EQ(PeerAddress::decode(good.substr(0, bytes)).status().code(), ErrorCode::corrupt) << bytes;
  }
}

}  // namespace
}  // namespace ferrule::transport::ucx
